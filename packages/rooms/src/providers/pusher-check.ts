/** Whether the record can do what rooms need: everything is tried in a channel of its own. */
import type { Clock, NewId } from "@leafmesh/protocol";
import { type CheckResult, RoomError } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import type { PusherOptions } from "./pusher.ts";
import { PusherApi } from "./pusher-api.ts";
import { pusherFaultError, pusherFaultOf } from "./pusher-errors.ts";
import { disconnect, newPusherClient, type Pusher } from "./pusher-link.ts";
import { parsePusherPlace } from "./pusher-place.ts";

/**
 * Triggers an event (app id, key, secret, cluster, clock), joins a channel by its own signature, and sends a client event
 * from one connection to another (that they are on).
 */
export async function checkPusher(
  record: PusherOptions,
  { clock, newId }: { readonly clock: Clock; readonly newId: NewId },
  signal: AbortSignal,
): Promise<CheckResult> {
  const place = parsePusherPlace(record.cluster);
  if (!place) throw new TypeError("a Pusher cluster that its schema refuses");
  const channel = `presence-cache-leafmesh-${newId("probe")}`;
  const api = new PusherApi(record, place, clock);
  const clients: Pusher[] = [];
  try {
    const triggered = await untilAborted(api.trigger({ channel, name: "probe", data: {} }, signal), signal, "Pusher");
    if (triggered.status !== "taken") throw triggered.error;
    const [speaker, listener] = await untilAborted(
      Promise.all([newPusherClient(record, place), newPusherClient(record, place)]),
      signal,
      "Pusher",
    );
    clients.push(speaker, listener);
    await untilAborted(clientEventPasses(speaker, listener, channel), signal, "Pusher");
    return { status: "active" };
  } catch (error) {
    if (!(error instanceof RoomError)) throw error;
    const isTrouble = error.kind === "unavailable" || error.kind === "rate";
    return { status: isTrouble ? "readable" : "failing", reason: error.message };
  } finally {
    for (const client of clients) disconnect(client);
    await api.close();
  }
}

/** Rejects with Pusher's word against it. */
function clientEventPasses(speaker: Pusher, listener: Pusher, channel: string): Promise<void> {
  return new Promise((resolve, reject) => {
    for (const { connection } of [speaker, listener]) {
      connection.bind("error", (reported: unknown) => {
        const fault = pusherFaultOf(reported);
        if (fault) reject(pusherFaultError(fault));
      });
    }
    const hearing = listener.subscribe(channel);
    hearing.bind("client-probe", () => resolve());
    hearing.bind("pusher:subscription_succeeded", () => {
      const speaking = speaker.subscribe(channel);
      speaking.bind("pusher:subscription_succeeded", () => void speaking.trigger("client-probe", {}));
    });
  });
}
