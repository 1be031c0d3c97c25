/** The double's channels: who is subscribed, who is present, and the event that a cache channel keeps. */

/** One subscriber, as a channel sees it. */
export interface Subscriber {
  readonly socketId: string;
  /** `data` is sent as text, as Pusher does; a client event's as it came. */
  send(message: object): void;
}

interface Channel {
  readonly subscribers: Map<Subscriber, string | undefined>;
  cached: object | undefined;
}

const NAME = /^[A-Za-z0-9_\-=@,.;]{1,164}$/;

export class Channels {
  readonly #channels = new Map<string, Channel>();

  static isName(name: unknown): name is string {
    return typeof name === "string" && NAME.test(name);
  }

  has(name: string, subscriber: Subscriber): boolean {
    return this.#channels.get(name)?.subscribers.has(subscriber) ?? false;
  }

  names(): readonly string[] {
    return [...this.#channels].flatMap(([name, { subscribers }]) => (subscribers.size > 0 ? [name] : []));
  }

  users(name: string): readonly string[] {
    const ids = [...(this.#channels.get(name)?.subscribers.values() ?? [])];
    return [...new Set(ids.filter((id) => id !== undefined))];
  }

  userOf(name: string, subscriber: Subscriber): string | undefined {
    return this.#channels.get(name)?.subscribers.get(subscriber);
  }

  subscribe(name: string, subscriber: Subscriber, userId: string | undefined): void {
    const channel = this.#channels.get(name) ?? { subscribers: new Map(), cached: undefined };
    this.#channels.set(name, channel);
    const isNew = userId !== undefined && !this.users(name).includes(userId);
    channel.subscribers.set(subscriber, userId);
    const ids = this.users(name);
    const presence = { count: ids.length, ids, hash: Object.fromEntries(ids.map((id) => [id, null])) };
    const data = JSON.stringify(userId === undefined ? {} : { presence });
    subscriber.send({ event: "pusher_internal:subscription_succeeded", channel: name, data });
    if (isNew) this.#announce(name, "member_added", userId, subscriber);
    if (!/^(private-|presence-)?cache-/.test(name)) return;
    subscriber.send(channel.cached ?? { event: "pusher:cache_miss", channel: name });
  }

  unsubscribe(name: string, subscriber: Subscriber): void {
    const channel = this.#channels.get(name);
    const userId = channel?.subscribers.get(subscriber);
    channel?.subscribers.delete(subscriber);
    // Somebody with a second connection is still there.
    if (userId !== undefined && !this.users(name).includes(userId)) this.#announce(name, "member_removed", userId);
  }

  gone(subscriber: Subscriber): void {
    for (const name of this.#channels.keys()) this.unsubscribe(name, subscriber);
  }

  /** An event of the server, to everybody. */
  trigger(name: string, message: object): void {
    const channel = this.#channels.get(name) ?? { subscribers: new Map(), cached: undefined };
    this.#channels.set(name, channel);
    channel.cached = message;
    this.relay(name, message);
  }

  relay(name: string, message: object, except?: Subscriber): void {
    for (const subscriber of this.#channels.get(name)?.subscribers.keys() ?? []) {
      if (subscriber !== except) subscriber.send(message);
    }
  }

  #announce(name: string, what: "member_added" | "member_removed", userId: string, except?: Subscriber): void {
    const data = JSON.stringify({ user_id: userId, ...(what === "member_added" ? { user_info: null } : {}) });
    this.relay(name, { event: `pusher_internal:${what}`, channel: name, data }, except);
  }
}
