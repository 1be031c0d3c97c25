/** Links of text messages, in whichever process of the mesh their rings wait. */
import type { Backend } from "@leafmesh/core";
import { hashLinkCode, type RingLinkHub } from "@leafmesh/notifiers";
import type { Clock, NewId, Timer } from "@leafmesh/protocol";
import type { LinkControl } from "@leafmesh/server";
import * as z from "zod";

type Peers = NonNullable<Backend["peers"]>;
type Looked = Awaited<ReturnType<LinkControl["look"]>>;
type Opened = Awaited<ReturnType<LinkControl["open"]>>;

const ASKED = "link.asked";
const FOUND = "link.found";

const askedSchema = z.object({ id: z.string(), codeHash: z.string(), wanted: z.enum(["look", "open"]) });
const lookedSchema = z.object({ state: z.enum(["open", "used", "over"]), ask: z.string().optional() });
const openedSchema = z.union([
  z.object({ state: z.literal("open"), ask: z.string(), ring: z.string(), leftMs: z.number() }),
  z.object({ state: z.enum(["used", "over"]) }),
]);
const foundSchema = z.object({ id: z.string(), found: z.unknown() });

/** The process that has the link answers from memory: what is longer under way will not come. */
const WAY_MS = 2_000;

export interface JoinLinks extends LinkControl {
  close(): void;
}

/** Other processes are told the hash of a code and never the code. */
export function createJoinLinks(hub: RingLinkHub, peers: Peers | undefined, clock: Clock, newId: NewId): JoinLinks {
  const waiting = new Map<string, (found: unknown) => void>();
  const stopListening = [
    peers?.listen(ASKED, (body) => {
      const { data } = askedSchema.safeParse(body);
      if (!data) return;
      const found = data.wanted === "open" ? hub.open(data.codeHash) : hub.look(data.codeHash);
      if (found.state !== "unknown") peers.tell(FOUND, { id: data.id, found });
    }),
    peers?.listen(FOUND, (body) => {
      const { data } = foundSchema.safeParse(body);
      if (data) waiting.get(data.id)?.(data.found);
    }),
  ];

  /** `undefined`: no other process has it. */
  const askPeers = async (codeHash: string, wanted: "look" | "open"): Promise<unknown> => {
    if (!peers || (await peers.count().catch(() => 1)) < 2) return undefined;
    return new Promise((resolve) => {
      const id = newId("link");
      let timer: Timer | undefined;
      const end = (found: unknown): void => {
        timer?.cancel();
        waiting.delete(id);
        resolve(found);
      };
      timer = clock.schedule(WAY_MS, () => end(undefined));
      waiting.set(id, end);
      if (!peers.tell(ASKED, { id, codeHash, wanted })) end(undefined);
    });
  };

  return {
    async look(code): Promise<Looked> {
      const codeHash = hashLinkCode(code);
      const here = hub.look(codeHash);
      if (here.state !== "unknown") return here;
      return lookedSchema.safeParse(await askPeers(codeHash, "look")).data ?? here;
    },
    async open(code): Promise<Opened> {
      const codeHash = hashLinkCode(code);
      const here = hub.open(codeHash);
      if (here.state !== "unknown") return here;
      return openedSchema.safeParse(await askPeers(codeHash, "open")).data ?? here;
    },
    close() {
      for (const stop of stopListening) stop?.();
      for (const end of [...waiting.values()]) end(undefined);
    },
  };
}
