/** Publishing over one link: every call settles, and what it settles with says whether the message left. */
import type { Clock, Timer } from "@leafmesh/protocol";
import { utf8Length } from "@leafmesh/protocol";
import type { MqttClient } from "mqtt";
import { abortedFailure, MqttFailure } from "./failure.ts";
import { NO_MATCHING_SUBSCRIBERS, reasonFailure } from "./reasons.ts";
import { topicIssue } from "./topics.ts";
import { toBuffer } from "./vendor.ts";

/** Longest wait for an acknowledgement. */
export const ACK_TIMEOUT_MS = 5_000;

/** Messages of one link that may be unacknowledged at once, unless the broker allows fewer. */
const MAX_IN_FLIGHT = 1_000;
/** Messages that may wait, for at most their own timeout, until one in flight is acknowledged. */
const MAX_WAITING = 1_000;

/** A QoS 1 message. */
export interface Outgoing {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly retain?: boolean | undefined;
  /** MQTT 5: an undelivered message dies after so long. Whole seconds, at least 1. */
  readonly expirySeconds?: number | undefined;
  /** MQTT 5. */
  readonly contentType?: string | undefined;
}

export interface PublishOptions {
  readonly signal?: AbortSignal | undefined;
  /** {@link ACK_TIMEOUT_MS} unless given. */
  readonly timeoutMs?: number | undefined;
}

export type Published =
  /** The broker has it. `reached` is false when it says that nobody is subscribed (MQTT 5, optional for brokers). */
  | { readonly status: "acknowledged"; readonly reached: boolean }
  /** The broker said no: the message goes nowhere. */
  | { readonly status: "refused"; readonly failure: MqttFailure }
  /** It never left this process. */
  | { readonly status: "not_sent"; readonly failure: MqttFailure }
  /** It left, and no answer came: the broker may have it, now or when it is back. */
  | { readonly status: "unknown"; readonly failure: MqttFailure };

/** What the broker said of itself in CONNACK. */
export interface BrokerLimits {
  readonly maximumPacketSize?: number | undefined;
  readonly receiveMaximum?: number | undefined;
}

export interface Publisher {
  readonly publish: (message: Outgoing, options?: PublishOptions) => Promise<Published>;
  readonly maxPacketBytes: number | undefined;
  opened(limits: BrokerLimits): void;
  /** A PUBACK came. */
  acknowledged(messageId: number, reasonCode: number): void;
  /** The connection is over: settles everything, and whatever is published from now on. */
  fail(failure: MqttFailure): void;
}

interface Entry {
  readonly message: Outgoing;
  readonly settle: (result: Published) => void;
  /** Set once it was written. */
  messageId?: number;
}

export function createPublisher(client: MqttClient, clock: Clock, broker: string): Publisher {
  /** Written and unacknowledged; also those that nobody waits for any more, since the broker counts them too. */
  const inFlight = new Map<number, Entry>();
  const waiting = new Set<Entry>();
  let limits: BrokerLimits = {};
  let over: MqttFailure | undefined;

  const hasRoom = (): boolean => inFlight.size < Math.min(limits.receiveMaximum ?? MAX_IN_FLIGHT, MAX_IN_FLIGHT);

  const write = (entry: Entry): void => {
    const { topic, payload, retain, expirySeconds, contentType } = entry.message;
    const properties = {
      ...(expirySeconds === undefined ? {} : { messageExpiryInterval: expirySeconds }),
      ...(contentType === undefined ? {} : { contentType }),
    };
    let rejected: Error | undefined;
    client.publish(topic, toBuffer(payload), { qos: 1, retain: retain ?? false, properties }, (error) => {
      rejected = error;
    });
    if (rejected) {
      entry.settle({ status: "not_sent", failure: notConnected(broker, rejected) });
      return;
    }
    entry.messageId = client.getLastMessageId();
    inFlight.set(entry.messageId, entry);
  };

  const writeWaiting = (): void => {
    for (const entry of waiting) {
      if (!hasRoom()) return;
      waiting.delete(entry);
      write(entry);
    }
  };

  const refuse = (message: Outgoing, signal: AbortSignal | undefined): MqttFailure | undefined => {
    const issue = topicIssue(message.topic);
    if (issue) return new MqttFailure("bad_request", `The topic ${issue}.`, { code: "topic" });
    const bytes = packetBytes(message);
    if (limits.maximumPacketSize !== undefined && bytes > limits.maximumPacketSize) {
      const sentence = `The message has ${bytes} bytes with its topic; MQTT broker ${broker} takes ${limits.maximumPacketSize}.`;
      return new MqttFailure("too_big", sentence, { code: "maximum_packet_size" });
    }
    if (signal?.aborted) return abortedFailure(signal);
    if (over) return over;
    return client.connected ? undefined : notConnected(broker);
  };

  const publish = (message: Outgoing, { signal, timeoutMs = ACK_TIMEOUT_MS }: PublishOptions = {}) => {
    const failure = refuse(message, signal);
    if (failure) return Promise.resolve<Published>({ status: "not_sent", failure });

    const { promise, resolve } = Promise.withResolvers<Published>();
    let timer: Timer | undefined;
    let settled = false;
    const entry: Entry = {
      message,
      settle(result) {
        if (settled) return;
        settled = true;
        timer?.cancel();
        signal?.removeEventListener("abort", abort);
        resolve(result);
      },
    };
    /** Nobody waits for it any more. MQTT.js forgets it; the broker may still acknowledge it. */
    const giveUp = (reason: MqttFailure): void => {
      if (settled) return;
      const { messageId } = entry;
      if (messageId === undefined) waiting.delete(entry);
      else client.removeOutgoingMessage(messageId);
      entry.settle({ status: messageId === undefined ? "not_sent" : "unknown", failure: reason });
    };
    const abort = (): void => {
      if (signal) giveUp(abortedFailure(signal));
    };

    if (hasRoom()) write(entry);
    else if (waiting.size < MAX_WAITING) waiting.add(entry);
    else entry.settle({ status: "not_sent", failure: tooMany(broker) });
    if (!settled) {
      timer = clock.schedule(timeoutMs, () => giveUp(unacknowledged(broker, timeoutMs)));
      signal?.addEventListener("abort", abort, { once: true });
    }
    return promise;
  };

  return {
    publish,
    get maxPacketBytes() {
      return limits.maximumPacketSize;
    },
    opened(said) {
      limits = said;
    },
    acknowledged(messageId, reasonCode) {
      const entry = inFlight.get(messageId);
      if (!entry) return;
      inFlight.delete(messageId);
      entry.settle(
        reasonCode >= 128
          ? { status: "refused", failure: reasonFailure(reasonCode, "publish", broker) }
          : { status: "acknowledged", reached: reasonCode !== NO_MATCHING_SUBSCRIBERS },
      );
      writeWaiting();
    },
    fail(failure) {
      over ??= failure;
      for (const entry of waiting) entry.settle({ status: "not_sent", failure });
      waiting.clear();
      for (const [messageId, entry] of inFlight) {
        client.removeOutgoingMessage(messageId);
        entry.settle({ status: "unknown", failure });
      }
      inFlight.clear();
    },
  };
}

/** Size of the PUBLISH packet, or a few bytes more. */
export function packetBytes({ topic, payload, contentType = "" }: Outgoing): number {
  const fixedHeader = 5;
  const lengthsAndId = 2 + 2;
  const properties = 4 + 5 + 3 + utf8Length(contentType);
  return fixedHeader + lengthsAndId + utf8Length(topic) + properties + payload.byteLength;
}

function notConnected(broker: string, cause?: Error): MqttFailure {
  return new MqttFailure("unavailable", `There is no connection to MQTT broker ${broker}.`, { code: "closed", cause });
}

function unacknowledged(broker: string, timeoutMs: number): MqttFailure {
  const sentence = `MQTT broker ${broker} did not acknowledge a message within ${timeoutMs / 1000} s.`;
  return new MqttFailure("unavailable", sentence, { code: "timeout" });
}

function tooMany(broker: string): MqttFailure {
  const sentence = `MQTT broker ${broker} has not acknowledged ${MAX_WAITING} earlier messages.`;
  return new MqttFailure("rate", sentence, { code: "in_flight" });
}
