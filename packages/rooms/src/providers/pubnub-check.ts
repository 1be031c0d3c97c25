/** Whether the keys can do what rooms need: everything is tried on channels that nobody listens to. */
import type { NewId } from "@leafmesh/protocol";
import { type CheckResult, RoomError } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import type { PubNubOptions } from "./pubnub.ts";
import { pubnubRoomError } from "./pubnub-errors.ts";
import { newPubNubClient } from "./pubnub-link.ts";

/**
 * Grants a token (the three keys, the clock, Access Manager), publishes with it where it may and where it may not (whether
 * Access Manager is enforced), and asks who is there (Presence).
 */
export async function checkPubNub(keys: PubNubOptions, newId: NewId, signal: AbortSignal): Promise<CheckResult> {
  const probe = `leafmesh.${newId("probe")}`;
  const user = newId("lmp");
  const mesh = await newPubNubClient(keys, user);
  const { secret_key: _secret, ...publicKeys } = keys;
  const device = await newPubNubClient({ ...publicKeys, secret_key: "" }, user);
  try {
    const resources = { channels: { [`${probe}.up`]: { write: true }, [`${probe}.down`]: { read: true } } };
    const token = await untilAborted(mesh.grantToken({ ttl: 1, authorized_uuid: user, resources }), signal, "PubNub");
    device.setToken(token);
    const publish = (channel: string) => device.publish({ channel, message: { probe: true }, storeInHistory: false });
    await untilAborted(publish(`${probe}.up`), signal, "PubNub");
    if (await succeeds(untilAborted(publish(`${probe}.other`), signal, "PubNub"))) {
      const reason =
        "Access Manager is not enforced: any device could use any channel. Turn it on for the keyset in the Admin Portal.";
      return { status: "failing", reason };
    }
    return await checkPresence(() => untilAborted(mesh.hereNow({ channels: [`${probe}.down`] }), signal, "PubNub"));
  } catch (error) {
    return verdict(error instanceof RoomError ? error : pubnubRoomError(error));
  } finally {
    mesh.destroy();
    device.destroy();
  }
}

async function checkPresence(ask: () => Promise<unknown>): Promise<CheckResult> {
  try {
    await ask();
    return { status: "active" };
  } catch (error) {
    const known = error instanceof RoomError ? error : pubnubRoomError(error);
    if (known.kind === "unavailable" || known.kind === "rate") return verdict(known);
    return { status: "failing", reason: "Presence is off: turn it on for the keyset in the Admin Portal." };
  }
}

function verdict({ kind, message }: RoomError): CheckResult {
  return { status: kind === "unavailable" || kind === "rate" ? "readable" : "failing", reason: message };
}

/** A refusal is an answer; trouble is thrown on. */
async function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  try {
    await attempt;
    return true;
  } catch (error) {
    const known = error instanceof RoomError ? error : pubnubRoomError(error);
    if (known.kind === "bad_credential") return false;
    throw known;
  }
}
