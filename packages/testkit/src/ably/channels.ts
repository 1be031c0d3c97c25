/** What the double keeps of each channel: its members, its last messages, who listens. */

import type { AblyClient } from "./client.ts";
import { ABLY_ERRORS, type AblyError, mayDo } from "./credentials.ts";
import { ACTION, FLAG, type Frame, PRESENCE } from "./wire.ts";

const MOST_KEPT = 200;

interface Kept {
  readonly serial: number;
  readonly frame: Readonly<Record<string, unknown>>;
  readonly from: string;
}

/** Data as the client encoded it: an object travels as text. */
interface Payload {
  readonly data?: unknown;
  readonly encoding?: string | null | undefined;
}

interface Member {
  readonly client: AblyClient;
  readonly payload: Payload;
}

interface Channel {
  serial: number;
  readonly kept: Kept[];
  readonly ids: Set<string>;
  readonly listeners: Set<AblyClient>;
  readonly members: Map<string, Member>;
}

export interface Channels {
  readonly published: { readonly channel: string; readonly clientId: string; readonly data: unknown }[];
  attach(client: AblyClient, frame: Frame): void;
  detach(client: AblyClient, name: string): void;
  /** The refusal, or nothing when every message was taken. */
  publish(client: AblyClient, frame: Frame): AblyError | undefined;
  enter(client: AblyClient, frame: Frame): AblyError | undefined;
  /** The client is gone from every channel. */
  forget(client: AblyClient): void;
  inject(name: string, message: { readonly clientId: string; readonly name?: string; readonly data: unknown }): void;
}

export function createChannels(options: {
  readonly maxMessageBytes: number;
  refusal(phase: "attach" | "publish"): AblyError | undefined;
}): Channels {
  const all = new Map<string, Channel>();
  const published: Channels["published"] = [];

  const channelOf = (name: string): Channel => {
    let channel = all.get(name);
    if (!channel) {
      channel = { serial: 0, kept: [], ids: new Set(), listeners: new Set(), members: new Map() };
      all.set(name, channel);
    }
    return channel;
  };

  const broadcast = (name: string, frame: Readonly<Record<string, unknown>>, from: AblyClient | undefined): void => {
    const channel = channelOf(name);
    const serial = ++channel.serial;
    const whole = { ...frame, channel: name, channelSerial: String(serial), timestamp: Date.now() };
    channel.kept.push({ serial, frame: whole, from: from?.connectionId ?? "" });
    if (channel.kept.length > MOST_KEPT) channel.kept.shift();
    for (const listener of channel.listeners) {
      if (listener === from && !from.echo) continue;
      listener.send(whole);
    }
  };

  const presenceFrame = (action: number, member: Member, id: string) => {
    const { connectionId, identity } = member.client;
    return {
      action: ACTION.presence,
      presence: [{ action, id, connectionId, clientId: identity.clientId, ...member.payload, timestamp: Date.now() }],
    };
  };

  const leave = (name: string, client: AblyClient, said: Payload | undefined, id: string): void => {
    const channel = channelOf(name);
    const member = channel.members.get(client.connectionId);
    if (!member) return;
    channel.members.delete(client.connectionId);
    broadcast(name, presenceFrame(PRESENCE.leave, { client, payload: said ?? member.payload }, id), client);
  };

  return {
    published,

    attach(client, { channel: name = "", channelSerial, params }) {
      const { capability } = client.identity;
      const refusal =
        options.refusal("attach") ??
        (["subscribe", "publish", "presence"].some((right) => mayDo(capability, name, right))
          ? undefined
          : ABLY_ERRORS.noRight);
      if (refusal) {
        client.send({ action: ACTION.error, channel: name, error: { ...refusal, href: "" } });
        return;
      }
      const channel = channelOf(name);
      const seen = channelSerial === undefined || channelSerial === null ? undefined : Number(channelSerial);
      const rewind = params?.rewind === undefined ? 0 : Number.parseInt(params.rewind, 10);
      const missed =
        seen === undefined
          ? rewound(channel, rewind)
          : channel.kept.filter(({ serial, from }) => serial > seen && (from !== client.connectionId || client.echo));
      const members = [...channel.members.values()];
      const may = (right: string, flag: number): number => (mayDo(capability, name, right) ? flag : 0);
      client.send({
        action: ACTION.attached,
        channel: name,
        channelSerial: String(channel.serial),
        params: params ?? {},
        flags:
          (members.length > 0 ? FLAG.hasPresence : 0) |
          (seen === undefined ? 0 : FLAG.resumed) |
          (missed.length > 0 ? FLAG.hasBacklog : 0) |
          may("presence", FLAG.presence) |
          may("publish", FLAG.publish) |
          may("subscribe", FLAG.subscribe | FLAG.presenceSubscribe),
      });
      if (!mayDo(capability, name, "subscribe")) return;
      channel.listeners.add(client);
      for (const { frame } of missed) client.send(frame);
      if (members.length === 0) return;
      const presence = members.map(({ client: { connectionId, identity }, payload }, index) => ({
        action: PRESENCE.present,
        ...{
          id: `${connectionId}:0:${index}`,
          connectionId,
          clientId: identity.clientId,
          ...payload,
          timestamp: Date.now(),
        },
      }));
      client.send({ action: ACTION.sync, channel: name, channelSerial: "sync:", presence });
    },

    detach(client, name) {
      const channel = channelOf(name);
      channel.listeners.delete(client);
      leave(name, client, undefined, `${client.connectionId}:${client.nextId()}:0`);
      client.send({ action: ACTION.detached, channel: name });
    },

    publish(client, { channel: name = "", messages = [] }) {
      const refusal = options.refusal("publish");
      if (refusal) return refusal;
      const { identity, connectionId } = client;
      if (!mayDo(identity.capability, name, "publish")) return ABLY_ERRORS.noRight;
      if (Buffer.byteLength(JSON.stringify(messages)) > options.maxMessageBytes + 512) return ABLY_ERRORS.tooLarge;
      if (messages.some(({ clientId }) => clientId !== undefined && clientId !== identity.clientId)) {
        return ABLY_ERRORS.clientIdMismatch;
      }
      const channel = channelOf(name);
      const fresh = messages.filter(({ id }) => id === undefined || !channel.ids.has(id));
      for (const { id } of fresh) if (id !== undefined) channel.ids.add(id);
      if (fresh.length === 0) return undefined;
      for (const { data } of fresh) published.push({ channel: name, clientId: identity.clientId ?? "", data });
      const id = `${connectionId}:${client.nextId()}`;
      broadcast(
        name,
        {
          action: ACTION.message,
          ...{ id, connectionId },
          messages: fresh.map((message, index) => ({ id: `${id}:${index}`, ...message, clientId: identity.clientId })),
        },
        client,
      );
      return undefined;
    },

    enter(client, { channel: name = "", presence = [] }) {
      const { identity, connectionId } = client;
      if (identity.clientId === undefined) return ABLY_ERRORS.noClientId;
      if (!mayDo(identity.capability, name, "presence")) return ABLY_ERRORS.noRight;
      for (const { action, data, encoding } of presence) {
        const id = `${connectionId}:${client.nextId()}:0`;
        if (action === PRESENCE.leave) {
          leave(name, client, data === undefined ? undefined : { data, encoding }, id);
          continue;
        }
        const { members } = channelOf(name);
        const member = { client, payload: { data, encoding } };
        const known = members.has(connectionId);
        members.set(connectionId, member);
        broadcast(name, presenceFrame(known ? PRESENCE.update : PRESENCE.enter, member, id), client);
      }
      return undefined;
    },

    forget(client) {
      for (const [name, channel] of all) {
        channel.listeners.delete(client);
        // An id that is not the connection's own says that the service made it up for a member that was lost.
        leave(name, client, undefined, `synthesized:${client.nextId()}:0`);
      }
    },

    inject(name, { clientId, name: messageName, data }) {
      const id = `injected:${channelOf(name).serial}`;
      broadcast(
        name,
        {
          action: ACTION.message,
          id,
          connectionId: "injected",
          messages: [{ id: `${id}:0`, name: messageName, clientId, data }],
        },
        undefined,
      );
    },
  };
}

function rewound({ kept }: Channel, count: number): readonly Kept[] {
  return count > 0 ? kept.filter(({ frame }) => frame.action === ACTION.message).slice(-count) : [];
}
