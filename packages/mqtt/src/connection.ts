/**
 * The mesh's connection to one broker, shared by everything that a record is used for. Connects on first use. While
 * somebody is subscribed it comes back by itself after a loss; otherwise the next use brings it back.
 *
 * The broker keeps the session for a minute after a loss (MQTT 5), so what a device sends meanwhile is not lost. The
 * session starts clean with the process: its client id is random, so nobody else can take the session over, and two
 * processes never throw each other out.
 */
import type { Clock, Logger } from "@leafmesh/protocol";
import { type BrokerAddress, parseBrokerAddress } from "./address.ts";
import { loadClient } from "./client.ts";
import { abortedFailure, MqttFailure } from "./failure.ts";
import type { CreateClient, Incoming, Link, MqttVersion } from "./link.ts";
import { OLD_VERSION_WARNING, openNewestLink } from "./open.ts";
import type { MqttOptions } from "./options.ts";
import type { Outgoing, Published, PublishOptions } from "./publisher.ts";
import { createReconnect } from "./reconnect.ts";
import { SESSION_SECONDS } from "./room-messages.ts";
import { createSubscriptions } from "./subscriptions.ts";

export interface MqttConnectionDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** 0 to 1, exclusive; spreads reconnects. `Math.random` unless given. */
  readonly random?: (() => number) | undefined;
}

export interface BrokerFacts {
  readonly version: MqttVersion;
  /** Largest packet the broker takes, where it says so. */
  readonly maxPacketBytes: number | undefined;
}

export interface SubscriptionHandlers {
  /** In the order of arrival. Must not throw. */
  message(message: Incoming): void;
  /** The broker does not let the mesh back in: nothing more will come. Called at most once. */
  lost(failure: MqttFailure): void;
}

export interface Subscription {
  /** Idempotent, never rejects. */
  close(): Promise<void>;
}

export interface MqttConnection {
  /** Whether a message could leave now. */
  readonly isOpen: boolean;
  /** Connects if there is no connection. Throws {@link MqttFailure}. */
  ready(signal: AbortSignal): Promise<BrokerFacts>;
  /**
   * Connects if there is no connection, then publishes once. Never rejects: what could not leave now is `not_sent`, and
   * is not kept for later.
   */
  publish(message: Outgoing, signal: AbortSignal): Promise<Published>;
  /** As `publish`, but does not connect for it. */
  publishIfConnected(message: Outgoing, options?: PublishOptions): Promise<Published>;
  /** Hears exact topics, at QoS 1, until closed; holds over reconnects. Throws {@link MqttFailure}. */
  subscribe(topics: readonly string[], handlers: SubscriptionHandlers, signal: AbortSignal): Promise<Subscription>;
  /** A clean goodbye. Idempotent, never rejects, ends within 3 s. */
  close(): Promise<void>;
}

/** The key under which a record's faces share their connection in its `ConnectionScope`. */
export const SHARED_CONNECTION = "mqtt";

/** Building is pure. `options` have passed `mqttOptionIssues`. */
export function createMqttConnection(
  options: MqttOptions,
  { clock, logger, random = Math.random }: MqttConnectionDependencies,
): MqttConnection {
  const address = addressOf(options);
  const clientId = randomClientId();
  const subscriptions = createSubscriptions();
  const closing = new AbortController();
  let version: MqttVersion = 5;
  let client: CreateClient | undefined;
  let link: Link | undefined;
  let everConnected = false;

  const open = async (): Promise<Link> => {
    client ??= await loadClient(options, address);
    const opened = await openNewestLink(
      {
        address,
        version,
        clientId,
        clean: !everConnected,
        sessionSeconds: SESSION_SECONDS,
        username: options.username,
        password: options.password,
      },
      { createClient: client, clock, onMessage: subscriptions.deliver },
      closing.signal,
    );
    if (opened.version !== version) logger.warn(OLD_VERSION_WARNING, { broker: address.label });
    version = opened.version;
    everConnected = true;
    try {
      await subscriptions.restore(opened);
    } catch (error) {
      opened.drop();
      throw error;
    }
    link = opened;
    void opened.over.then((failure) => {
      if (link === opened) lost(failure);
    });
    return opened;
  };

  const reconnect = createReconnect({
    open,
    clock,
    random,
    isNeeded: () => !closing.signal.aborted && subscriptions.any && !link?.open,
    gaveUp: (failure) => {
      logger.error("The MQTT broker does not let the mesh back in", { broker: address.label, reason: failure.message });
      subscriptions.lose(failure);
    },
  });

  const lost = (failure: MqttFailure | undefined): void => {
    link = undefined;
    if (!failure || closing.signal.aborted) return;
    logger.warn("The connection to the MQTT broker was lost", { broker: address.label, reason: failure.message });
    reconnect.start();
  };

  const connected = async (signal: AbortSignal): Promise<Link> => {
    if (closing.signal.aborted) throw closedFailure();
    if (signal.aborted) throw abortedFailure(signal);
    if (link?.open) return link;
    return await untilAborted(reconnect.now(), signal);
  };

  return {
    get isOpen() {
      return link?.open ?? false;
    },
    async ready(signal) {
      const { version: spoken, maxPacketBytes } = await connected(signal);
      return { version: spoken, maxPacketBytes };
    },
    async publish(message, signal) {
      try {
        const to = await connected(signal);
        return await to.publish(message, { signal });
      } catch (error) {
        return { status: "not_sent", failure: asFailure(error) };
      }
    },
    async publishIfConnected(message, publishOptions) {
      return (await link?.publish(message, publishOptions)) ?? { status: "not_sent", failure: closedFailure() };
    },
    async subscribe(topics, handlers, signal) {
      const to = await connected(signal);
      const subscription = subscriptions.add(topics, handlers);
      try {
        await to.subscribe(topics, signal);
      } catch (error) {
        void subscription.remove(to);
        throw error;
      }
      subscription.confirm();
      return { close: () => subscription.remove(link) };
    },
    async close() {
      closing.abort(closedFailure());
      reconnect.stop();
      await link?.end();
    },
  };
}

function addressOf(options: MqttOptions): BrokerAddress {
  const parsed = parseBrokerAddress(options.url);
  if (!parsed.ok) throw new TypeError(`url ${parsed.issue}`);
  return parsed.address;
}

/** What every broker accepts: at most 23 letters and digits. */
export function randomClientId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return `lm${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

async function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const ended = Promise.withResolvers<never>();
  const abort = (): void => ended.reject(abortedFailure(signal));
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, ended.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function closedFailure(): MqttFailure {
  return new MqttFailure("unavailable", "The connection to the MQTT broker is closed.", { code: "closed" });
}

function asFailure(error: unknown): MqttFailure {
  if (error instanceof MqttFailure) return error;
  return new MqttFailure("unavailable", "The connection to the MQTT broker failed.", { cause: error });
}
