/** Whether a record works, found out without ringing anybody: a connection of its own, gone again at the end. */
import { type Clock, type Timer, toBase64Url } from "@leafmesh/protocol";
import { type BrokerAddress, parseBrokerAddress } from "./address.ts";
import { loadClient } from "./client.ts";
import { randomClientId } from "./connection.ts";
import { abortedFailure, MqttFailure } from "./failure.ts";
import type { Incoming, Link } from "./link.ts";
import { openNewestLink } from "./open.ts";
import type { MqttOptions } from "./options.ts";
import { roomBase, roomTopics } from "./topics.ts";

/** How long a message may take to the broker and back before the broker's access rules are held to stop it. */
const LOOPBACK_TIMEOUT_MS = 5_000;
/** The probe's messages do not outlive it by much. */
const PROBE_EXPIRY_SECONDS = 10;

export type MqttCheck =
  | { readonly status: "active" }
  | { readonly status: "failing"; readonly reason: string }
  | { readonly status: "readable"; readonly reason: string };

/**
 * Connecting proves address, TLS and login. With a `room_topic_prefix` a message is sent through a room's topic and has
 * to come back, since a broker may grant a subscription and deliver nothing.
 */
export async function checkMqtt(options: MqttOptions, clock: Clock, signal: AbortSignal): Promise<MqttCheck> {
  try {
    await probe(options, clock, signal);
    return { status: "active" };
  } catch (error) {
    if (!(error instanceof MqttFailure)) throw error;
    return { status: isVerdict(error) ? "failing" : "readable", reason: error.message };
  }
}

async function probe(options: MqttOptions, clock: Clock, signal: AbortSignal): Promise<void> {
  const parsed = parseBrokerAddress(options.url);
  if (!parsed.ok) throw new MqttFailure("bad_request", `url ${parsed.issue}.`);
  const { address } = parsed;
  const heard: { handler?: (message: Incoming) => void } = {};
  const link = await openNewestLink(
    {
      address,
      version: 5,
      clientId: randomClientId(),
      clean: true,
      sessionSeconds: 0,
      username: options.username,
      password: options.password,
    },
    {
      createClient: await loadClient(options, address),
      clock,
      onMessage: (message) => heard.handler?.(message),
    },
    signal,
  );
  try {
    const prefix = options.room_topic_prefix;
    if (prefix === undefined) return;
    await loopback({
      link,
      prefix,
      address,
      clock,
      signal,
      listen: (handler) => {
        heard.handler = handler;
      },
    });
  } finally {
    await link.end();
  }
}

interface Loopback {
  readonly link: Link;
  readonly prefix: string;
  readonly address: BrokerAddress;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly listen: (handler: (message: Incoming) => void) => void;
}

/** Uses the rights that a room uses: hears and writes `presence`, writes `down`. */
async function loopback({ link, prefix, address, clock, signal, listen }: Loopback): Promise<void> {
  const { presence, down } = roomTopics(roomBase(prefix, `probe-${randomClientId()}`, "probe"));
  const nonce = crypto.getRandomValues(new Uint8Array(16));
  const came = Promise.withResolvers<void>();
  // It may fail while something else is awaited.
  came.promise.catch(() => {});
  listen(({ topic, payload }) => {
    if (topic === presence && toBase64Url(payload) === toBase64Url(nonce)) came.resolve();
  });
  let timer: Timer | undefined;
  const abort = (): void => came.reject(abortedFailure(signal));
  signal.addEventListener("abort", abort, { once: true });
  void link.over.then((failure) => failure && came.reject(failure));
  try {
    await link.subscribe([presence], signal);
    for (const topic of [down, presence]) {
      const published = await link.publish({ topic, payload: nonce, expirySeconds: PROBE_EXPIRY_SECONDS }, { signal });
      if (published.status !== "acknowledged") throw published.failure;
    }
    // From now on silence is the broker's decision.
    timer = clock.schedule(LOOPBACK_TIMEOUT_MS, () => came.reject(notHeard(presence, address)));
    await came.promise;
  } finally {
    timer?.cancel();
    signal.removeEventListener("abort", abort);
  }
}

function notHeard(topic: string, { label }: BrokerAddress): MqttFailure {
  const sentence =
    `MQTT broker ${label} took a message to ${topic} and did not deliver it back within ` +
    `${LOOPBACK_TIMEOUT_MS / 1000} s: its access rules must let this login read and write below room_topic_prefix.`;
  return new MqttFailure("credential", sentence, { code: "no_loopback" });
}

/** Whether the broker, or the record, is at fault; everything else may look different in a minute. */
function isVerdict({ kind }: MqttFailure): boolean {
  return kind !== "unavailable" && kind !== "rate" && kind !== "aborted";
}
