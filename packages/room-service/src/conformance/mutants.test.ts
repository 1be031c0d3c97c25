/** The suite must notice services that break the protocol: each of these breaks one rule and is named for it. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Secret } from "@leafmesh/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RoomEffect, RoomInput, RoomState } from "../room/state.ts";
import { type StepRoom, stepRoom } from "../room/step.ts";
import { connectUrlOf } from "../serve.ts";
import { createRoomServiceWith } from "../service.ts";
import { runConformance } from "./index.ts";

const key = new Secret("conformance-key-of-32-characters");

type TamperHttp = (response: ServerResponse, path: string) => void;

interface Mutant {
  readonly name: string;
  /** The tests that must fail. */
  readonly caughtBy: readonly string[];
  readonly step?: StepRoom;
  readonly http?: TamperHttp;
}

/** Changes what the rules are told. */
const withInput =
  (change: (input: RoomInput, state: RoomState) => RoomInput): StepRoom =>
  (state, input, now) =>
    stepRoom(state, change(input, state), now);

/** Changes what they decide. */
const withEffects =
  (change: (effects: readonly RoomEffect[], input: RoomInput) => readonly RoomEffect[]): StepRoom =>
  (state, input, now) => {
    const step = stepRoom(state, input, now);
    return { ...step, effects: change(step.effects, input) };
  };

const withFrames = (change: (frame: Extract<RoomEffect, { type: "send" }>["frame"]) => typeof frame | undefined) =>
  withEffects((effects) =>
    effects.flatMap((effect): readonly RoomEffect[] => {
      if (effect.type !== "send") return [effect];
      const frame = change(effect.frame);
      return frame ? [{ ...effect, frame }] : [];
    }),
  );

/** The number that the sender of a frame would have to use next. */
function nextSeq(state: RoomState, link: number): number {
  return (state.seats.mesh.link === link ? state.seats.mesh : state.seats.device).received + 1;
}

const renumbered = (input: RoomInput, state: RoomState, which: "gaps" | "repeats"): RoomInput => {
  if (input.type !== "frame" || !("id" in input.frame)) return input;
  const wanted = nextSeq(state, input.link);
  const isOff = which === "gaps" ? input.frame.seq > wanted : input.frame.seq < wanted;
  return isOff ? { ...input, frame: { ...input.frame, seq: wanted } } : input;
};

const withSeats = (state: RoomState, change: (seat: RoomState["seats"]["mesh"]) => RoomState["seats"]["mesh"]) => ({
  ...state,
  seats: { mesh: change(state.seats.mesh), device: change(state.seats.device) },
});

const deleted = new Set<string>();

const mutants: readonly Mutant[] = [
  {
    name: "closes gaps silently",
    caughtBy: ["T7"],
    step: withInput((input, state) => renumbered(input, state, "gaps")),
  },
  {
    name: "relays repeats of an accepted frame",
    caughtBy: ["L5"],
    step: withInput((input, state) => renumbered(input, state, "repeats")),
  },
  {
    name: "lets a token be used again",
    caughtBy: ["W3", "W4"],
    step: (state, input, now) =>
      stepRoom(
        withSeats(state, (seat) => (seat.token ? { ...seat, token: { ...seat.token, used: false } } : seat)),
        input,
        now,
      ),
  },
  {
    name: "keeps the old device token alive",
    caughtBy: ["C7"],
    step: withInput((input, state) =>
      input.type === "join" && input.seat === "device"
        ? { ...input, jti: state.seats.device.token?.jti ?? input.jti }
        : input,
    ),
  },
  {
    name: "ignores frames of the wrong seat",
    caughtBy: ["W7"],
    step: (state, input, now) => {
      const isFromMesh = input.type === "frame" && state.seats.mesh.link === input.link;
      const isWrong =
        input.type === "frame" &&
        (input.frame.type === "task" ? !isFromMesh : input.frame.type === "reply" && isFromMesh);
      return isWrong ? { state, effects: [] } : stepRoom(state, input, now);
    },
  },
  {
    name: "knows no grace",
    caughtBy: ["L1", "L2", "L3"],
    step: withInput((input) =>
      input.type === "dropped" ? { type: "violated", link: input.link, how: "protocol" } : input,
    ),
  },
  {
    name: "does not tell how far a lost device got",
    caughtBy: ["L4"],
    step: withFrames((frame) =>
      frame.type === "peer"
        ? ({ type: "peer", seq: frame.seq, state: frame.state, reason: frame.reason } as typeof frame)
        : frame,
    ),
  },
  {
    name: "lets a resume key be used again",
    caughtBy: ["L8"],
    step: (state, input, now) => {
      const step = stepRoom(state, input, now);
      if (input.type !== "resume") return step;
      const keyOf = (seat: "mesh" | "device") => state.seats[seat].resumeKeyHash;
      const { mesh, device } = step.state.seats;
      return {
        ...step,
        state: {
          ...step.state,
          seats: {
            mesh: { ...mesh, resumeKeyHash: keyOf("mesh") },
            device: { ...device, resumeKeyHash: keyOf("device") },
          },
        },
      };
    },
  },
  {
    name: "forgets what a dropped client has not seen",
    caughtBy: ["L1", "L3"],
    step: (state, input, now) =>
      stepRoom(
        input.type === "resume"
          ? withSeats(state, (seat) => ({ ...seat, outbox: { ...seat.outbox, frames: [], bytes: 0 } }))
          : state,
        input,
        now,
      ),
  },
  {
    name: "goes on after `closing`",
    caughtBy: ["X1", "X4"],
    step: withEffects((effects) =>
      effects.flatMap((effect) =>
        effect.type === "send" && effect.frame.type === "closing"
          ? [effect, { ...effect, frame: { type: "ping" as const } }]
          : [effect],
      ),
    ),
  },
  {
    name: "closes with 1000 whatever the reason",
    caughtBy: ["X1", "T7"],
    step: withEffects((effects) =>
      effects.map((effect) => (effect.type === "close" ? { ...effect, code: 1000 } : effect)),
    ),
  },
  {
    name: "drops every other progress",
    caughtBy: ["T3", "T8"],
    step: withFrames((frame) => (frame.type === "progress" && frame.seq % 2 === 0 ? undefined : frame)),
  },
  {
    name: "hides capabilities",
    caughtBy: ["R2"],
    step: withInput((input) => (input.type === "join" ? { ...input, capabilities: undefined } : input)),
  },
  {
    name: "calls a leave a loss",
    caughtBy: ["L6"],
    step: withInput((input) =>
      input.type === "frame" && input.frame.type === "leave" ? { type: "dropped", link: input.link } : input,
    ),
  },
  {
    name: "seats a device that refuses",
    caughtBy: ["R1"],
    step: withInput((input) =>
      input.type === "refuse" ? { ...input, type: "join", resume: { key: "room.key", hash: "hash" } } : input,
    ),
  },
  {
    name: "never acknowledges",
    caughtBy: ["T2", "T6"],
    step: withFrames((frame) => (frame.type === "ack" ? undefined : frame)),
  },
  {
    name: "takes frames without end for a reader that does not read",
    caughtBy: ["A2"],
    step: withEffects((effects) => effects.filter((effect) => effect.type !== "pause")),
  },
  {
    name: "answers 200 to an opening",
    caughtBy: ["C1"],
    http: (response, path) => onHead(response, (status) => (path === "/v1/rooms" && status === 201 ? 200 : status)),
  },
  {
    name: "answers 404 to a second DELETE",
    caughtBy: ["C5"],
    http: (response, path) => {
      onHead(response, (status) => {
        const isRepeat = deleted.has(path);
        if (status === 204) deleted.add(path);
        return status === 204 && isRepeat ? 404 : status;
      });
    },
  },
  {
    name: "does not say its version",
    caughtBy: ["C4"],
    http: (response) => onHead(response, (status) => status, ["leafmesh-room-version"]),
  },
];

/** Changes the status and drops headers of an answer. */
function onHead(response: ServerResponse, change: (status: number) => number, without: readonly string[] = []): void {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = (status: number, headers?: unknown) => {
    const kept = Object.entries(headers ?? {}).filter(([name]) => !without.includes(name));
    return writeHead(change(status), Object.fromEntries(kept));
  };
}

async function serveMutant(mutant: Mutant): Promise<string> {
  let url = "";
  const service = createRoomServiceWith(mutant.step ?? stepRoom, {
    connectUrl: () => connectUrlOf(url),
    apiKeys: [key],
    limits: { idle_s: 0.5, dead_s: 0.5, grace_s: 1, rate: 500, burst: 60 },
    bounds: { drainMs: 500, helloMs: 2000 },
  });
  const server = createServer((request, response) => {
    mutant.http?.(response, request.url ?? "");
    service.handleRequest(request, response);
  });
  server.on("upgrade", (request, socket, head) => service.handleUpgrade(request, socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    await service.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return url;
}

describe("a service that", () => {
  it.concurrent.each(mutants)("$name is caught by $caughtBy", { timeout: 40_000 }, async (mutant) => {
    const url = await serveMutant(mutant);
    const report = await runConformance({ url, key, only: mutant.caughtBy });
    const failed = report.results.filter(({ status }) => status === "fail");
    expect(failed.map(({ id }) => id)).toEqual(expect.arrayContaining([...mutant.caughtBy]));
    for (const { reason } of failed) expect(reason).toMatch(/\w{3,} \w+/);
  });
});

describe("runConformance", () => {
  it("runs what was asked for and knows its own names", async () => {
    const url = await serveMutant({ name: "none", caughtBy: [] });
    const seen: string[] = [];
    const report = await runConformance({ url, key, only: ["C5", "X1"], onResult: ({ id }) => seen.push(id) });
    expect(report).toMatchObject({ url, passed: 2, failed: 0, skipped: 0 });
    expect(seen.sort()).toEqual(["C5", "X1"]);
    await expect(runConformance({ url, key, only: ["Q"] })).rejects.toThrow(/no test is called Q; there are C1, /);
  });

  it("reports a service that is not there, and skips what was not started", async () => {
    const nowhere = await runConformance({ url: "http://127.0.0.1:9", key, only: ["C1"] });
    expect(nowhere.results[0]).toMatchObject({
      id: "C1",
      status: "fail",
      reason: expect.stringContaining("was not answered"),
    });
    const stopped = await runConformance({ url: "http://127.0.0.1:9", key, only: ["C1"], signal: AbortSignal.abort() });
    expect(stopped).toMatchObject({ failed: 0, skipped: 1 });
  });
});
