/**
 * One network connection to a broker, from CONNECT to its end. It never reconnects: whoever needs that opens another
 * link, which starts with nothing to resend. That way no message can leave later than it was meant to.
 *
 * Runs on MQTT.js, whose publish does not settle when the connection is lost before the acknowledgement
 * (https://github.com/mqttjs/MQTT.js/issues/1974) and hides the reason code of a successful one: both are read here
 * from its events instead.
 */
import type { Clock, Secret } from "@leafmesh/protocol";
import type { IClientOptions, MqttClient } from "mqtt";
import type { BrokerAddress } from "./address.ts";
import { abortedFailure, MqttFailure } from "./failure.ts";
import { ACK_TIMEOUT_MS, createPublisher, type Outgoing, type Published, type PublishOptions } from "./publisher.ts";
import { reasonFailure } from "./reasons.ts";
import { KEEPALIVE_SECONDS } from "./room-messages.ts";
import { lostFailure, silentCloseFailure, socketFailure } from "./socket-errors.ts";
import { toBuffer } from "./vendor.ts";

/** Longest wait for the broker's answer to CONNECT, the network connection included. */
export const CONNECT_TIMEOUT_MS = 10_000;
/** Longest wait for a goodbye to leave, be it of a subscription or of the link. */
const END_TIMEOUT_MS = 2_000;
/** Largest packet that the broker may send, told to it in MQTT 5. Larger ones end the connection. */
const MAX_INBOUND_PACKET_BYTES = 1024 * 1024;

export type MqttVersion = 5 | 4;

/** A message that the broker publishes for a client whose connection is lost. */
export interface Will {
  readonly topic: string;
  readonly payload: Uint8Array;
  /** MQTT 5: held back for so long, and not published when the client is back by then. */
  readonly delaySeconds: number;
  /** MQTT 5: forgotten after so long. */
  readonly expirySeconds: number;
}

export interface LinkSettings {
  readonly address: BrokerAddress;
  readonly version: MqttVersion;
  readonly clientId: string;
  /** False resumes what the broker kept of this client id. */
  readonly clean: boolean;
  /** MQTT 5: how long the broker keeps the session after the connection is lost. */
  readonly sessionSeconds: number;
  readonly username?: string | undefined;
  readonly password?: Secret | undefined;
  readonly will?: Will | undefined;
}

/** Makes a client that starts to connect at once. `options` are complete but for the way to the broker. */
export type CreateClient = (options: IClientOptions, address: BrokerAddress) => MqttClient;

export interface Incoming {
  readonly topic: string;
  readonly payload: Uint8Array;
  /** The broker kept it from before the subscription. */
  readonly retained: boolean;
}

export interface LinkDependencies {
  readonly createClient: CreateClient;
  readonly clock: Clock;
  /** Every message, in order. Must not throw. */
  readonly onMessage: (message: Incoming) => void;
}

export interface Link {
  readonly version: MqttVersion;
  /** The broker resumed the session: earlier subscriptions hold, and what came meanwhile follows. */
  readonly resumed: boolean;
  /** Largest packet the broker takes, where it says so. */
  readonly maxPacketBytes: number | undefined;
  /** False from the moment that nothing can be sent any more. */
  readonly open: boolean;
  /** Resolves when the connection is over: with the reason, or with nothing when {@link Link.end} was called. */
  readonly over: Promise<MqttFailure | undefined>;
  /** Always settles, never rejects: with the broker's answer, or at the latest after `timeoutMs`. */
  publish(message: Outgoing, options?: PublishOptions): Promise<Published>;
  /** QoS 1. Throws {@link MqttFailure}. A grant does not prove that the broker's access rules let messages through. */
  subscribe(topics: readonly string[], signal?: AbortSignal): Promise<void>;
  /** Best effort; never rejects, ends within 2 s. */
  unsubscribe(topics: readonly string[]): Promise<void>;
  /** Says goodbye, which drops the session and the will, and closes. Idempotent, never rejects, ends within 2 s. */
  end(): Promise<void>;
  /** Drops the connection without a goodbye: the broker keeps the session and publishes the will. */
  drop(): void;
}

/** Connects. Throws {@link MqttFailure} and leaves nothing open. */
export async function openLink(
  settings: LinkSettings,
  { createClient, clock, onMessage }: LinkDependencies,
  signal: AbortSignal,
): Promise<Link> {
  if (signal.aborted) throw abortedFailure(signal);
  const { address, version } = settings;
  const client = createClient(clientOptions(settings), address);
  const publisher = createPublisher(client, clock, address.label);
  const over = Promise.withResolvers<MqttFailure | undefined>();
  const connected = Promise.withResolvers<{ resumed: boolean }>();
  let state: "connecting" | "open" | "over" = "connecting";
  let ending = false;
  let lastError: unknown;
  let goodbye: MqttFailure | undefined;

  const finish = (failure: MqttFailure): void => {
    if (state === "over") return;
    state = "over";
    publisher.fail(failure);
    connected.reject(failure);
    over.resolve(ending ? undefined : failure);
    client.end(true);
    // A goodbye that is still waiting for something keeps the client from ending by force.
    client.stream.destroy();
  };

  client.on("packetreceive", (packet) => {
    if (packet.cmd === "connack") {
      const code = version === 5 ? packet.reasonCode : packet.returnCode;
      if (code !== undefined && code > 0) finish(reasonFailure(code, "connect", address.label));
    } else if (packet.cmd === "disconnect") {
      goodbye = reasonFailure(packet.reasonCode ?? 0, "disconnect", address.label);
    } else if (packet.cmd === "puback") {
      publisher.acknowledged(packet.messageId ?? 0, packet.reasonCode ?? 0);
    }
  });
  client.on("connect", (packet) => {
    if (state !== "connecting") return;
    state = "open";
    setNoDelay(client.stream);
    publisher.opened(packet.properties ?? {});
    connected.resolve({ resumed: packet.sessionPresent });
  });
  client.on("message", (topic, payload, packet) => {
    // A resumed session's messages may come before MQTT.js reports that it is connected.
    if (state !== "over") onMessage({ topic, payload, retained: packet.retain });
  });
  // The acknowledgement waits until what the message led to has been written, and leaves in the same packet.
  client.handleMessage = (_packet, acknowledge) => queueMicrotask(acknowledge);
  client.on("error", (error) => {
    lastError = error;
    if (state === "connecting") finish(socketFailure(error, address.label, address.secure));
    // What comes after something that is not MQTT cannot be read either.
    else client.stream.destroy();
  });
  client.on("close", () => {
    if (state === "connecting") finish(goodbye ?? silentCloseFailure(address.label, address.secure));
    else finish(goodbye ?? lostFailure(lastError, address.label));
  });

  const timer = clock.schedule(CONNECT_TIMEOUT_MS, () => {
    const sentence = `MQTT broker ${address.label} did not answer within ${CONNECT_TIMEOUT_MS / 1000} s.`;
    finish(new MqttFailure("unavailable", sentence, { code: "timeout" }));
  });
  const abort = (): void => finish(abortedFailure(signal));
  signal.addEventListener("abort", abort, { once: true });

  let resumed: boolean;
  try {
    ({ resumed } = await connected.promise);
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", abort);
  }

  return {
    version,
    resumed,
    maxPacketBytes: publisher.maxPacketBytes,
    get open() {
      return state === "open" && !ending && client.connected;
    },
    over: over.promise,
    publish: publisher.publish,
    async subscribe(topics, subscribeSignal) {
      await subscribe(client, { topics, clock, broker: address.label, signal: subscribeSignal });
    },
    async unsubscribe(topics) {
      if (state !== "open" || topics.length === 0) return;
      await settled(clock, END_TIMEOUT_MS, (done) => client.unsubscribe([...topics], () => done()));
    },
    async end() {
      if (state === "over" || ending) return;
      ending = true;
      publisher.fail(closedHere());
      const properties = version === 5 ? { reasonCode: 0, properties: { sessionExpiryInterval: 0 } } : {};
      await settled(clock, END_TIMEOUT_MS, (done) => client.end(false, properties, () => done()));
      finish(closedHere());
    },
    drop() {
      finish(closedHere());
    },
  };
}

function clientOptions(settings: LinkSettings): IClientOptions {
  const { version, clientId, clean, sessionSeconds, username, password, will } = settings;
  return {
    protocolVersion: version,
    clientId,
    // MQTT 3.1.1 sessions never expire, so none is kept there.
    clean: clean || version === 4,
    keepalive: KEEPALIVE_SECONDS,
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    // Longer than the wait above, which ends the attempt with a sentence of its own.
    connectTimeout: CONNECT_TIMEOUT_MS * 2,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password: password.reveal() }),
    ...(version === 5
      ? { properties: { sessionExpiryInterval: sessionSeconds, maximumPacketSize: MAX_INBOUND_PACKET_BYTES } }
      : {}),
    ...(will === undefined ? {} : { will: willPacket(will, version) }),
  };
}

function willPacket(will: Will, version: MqttVersion): NonNullable<IClientOptions["will"]> {
  const { topic, payload, delaySeconds, expirySeconds } = will;
  return {
    topic,
    payload: toBuffer(payload),
    qos: 1,
    // Under 3.1.1 nothing that is retained ever expires.
    retain: version === 5,
    ...(version === 5 ? { properties: { willDelayInterval: delaySeconds, messageExpiryInterval: expirySeconds } } : {}),
  };
}

function closedHere(): MqttFailure {
  return new MqttFailure("unavailable", "The connection to the MQTT broker was closed on this side.", {
    code: "closed",
  });
}

/** Resolves when `start` reports that it is done, or after `timeoutMs`. */
async function settled(clock: Clock, timeoutMs: number, start: (done: () => void) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = clock.schedule(timeoutMs, resolve);
  start(resolve);
  await promise;
  timer.cancel();
}

interface Subscribe {
  readonly topics: readonly string[];
  readonly clock: Clock;
  readonly broker: string;
  readonly signal: AbortSignal | undefined;
}

async function subscribe(client: MqttClient, { topics, clock, broker, signal }: Subscribe): Promise<void> {
  if (signal?.aborted) throw abortedFailure(signal);
  if (!client.connected) throw new MqttFailure("unavailable", `There is no connection to MQTT broker ${broker}.`);
  const answer = Promise.withResolvers<void>();
  const fail = (failure: MqttFailure): void => answer.reject(failure);
  const timer = clock.schedule(ACK_TIMEOUT_MS, () => {
    const sentence = `MQTT broker ${broker} did not answer a subscription within ${ACK_TIMEOUT_MS / 1000} s.`;
    fail(new MqttFailure("unavailable", sentence, { code: "timeout" }));
  });
  const abort = (): void => {
    if (signal) fail(abortedFailure(signal));
  };
  signal?.addEventListener("abort", abort, { once: true });
  client.subscribe([...topics], { qos: 1 }, (error, _granted, packet) => {
    const refusal = packet?.granted.find((code) => typeof code === "number" && code >= 128);
    if (typeof refusal === "number") fail(reasonFailure(refusal, "subscribe", broker));
    else if (error) fail(new MqttFailure("unavailable", `MQTT broker ${broker}: ${error.message}.`, { cause: error }));
    else answer.resolve();
  });
  try {
    await answer.promise;
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", abort);
  }
}

/** Without it MQTT.js leaves Nagle's algorithm on, and a small message waits 40 ms for the last one's acknowledgement. */
function setNoDelay(stream: MqttClient["stream"]): void {
  if ("setNoDelay" in stream && typeof stream.setNoDelay === "function") stream.setNoDelay(true);
}
