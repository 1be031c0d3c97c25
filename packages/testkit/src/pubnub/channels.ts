/** What the double keeps of each channel: its last messages, who waits for the next, who is there. */

/** PubNub keeps about so many for whoever catches up. */
const MOST_KEPT = 100;

export interface Envelope {
  readonly timetoken: bigint;
  readonly channel: string;
  /** Client id of the publisher. */
  readonly publisher: string;
  readonly payload: unknown;
}

export interface ChannelsOptions {
  /** Replaces what clients ask for: how long a member whose polls ended stays. */
  readonly presenceTimeoutMs?: number | undefined;
}

interface Member {
  polls: number;
  timer: NodeJS.Timeout | undefined;
}

export class Channels {
  readonly #options: ChannelsOptions;
  readonly #kept: Envelope[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #members = new Map<string, Map<string, Member>>();
  #last = 0n;

  constructor(options: ChannelsOptions) {
    this.#options = options;
  }

  /** Ten-millionths of a second, never the same twice. */
  now(): bigint {
    const time = BigInt(Date.now()) * 10_000n;
    this.#last = time > this.#last ? time : this.#last + 1n;
    return this.#last;
  }

  publish(channel: string, publisher: string, payload: unknown): bigint {
    const timetoken = this.now();
    this.#kept.push({ timetoken, channel, publisher, payload });
    if (this.#kept.filter((envelope) => envelope.channel === channel).length > MOST_KEPT) {
      this.#kept.splice(
        this.#kept.findIndex((envelope) => envelope.channel === channel),
        1,
      );
    }
    for (const wake of [...this.#waiting]) wake();
    return timetoken;
  }

  since(channels: readonly string[], timetoken: bigint): readonly Envelope[] {
    return this.#kept.filter((envelope) => envelope.timetoken > timetoken && channels.includes(envelope.channel));
  }

  /** Resolves with the next message, or when the poll has lasted long enough or was given up. */
  next(timeoutMs: number, onGivenUp: (giveUp: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, timeoutMs);
      this.#waiting.add(end);
      onGivenUp(end);
    });
  }

  members(channel: string): readonly string[] {
    return [...(this.#members.get(channel)?.keys() ?? [])];
  }

  /** A client polls these channels: it is there until it has not polled for `timeoutMs`. Gives what ends the poll. */
  enter(channels: readonly string[], uuid: string, timeoutMs: number): () => void {
    const there = channels.filter((channel) => !channel.endsWith("-pnpres"));
    for (const channel of there) this.#touch(channel, uuid, timeoutMs).polls++;
    return () => {
      for (const channel of there) {
        const member = this.#members.get(channel)?.get(uuid);
        if (member) member.polls--;
      }
    };
  }

  heartbeat(channels: readonly string[], uuid: string, timeoutMs: number): void {
    for (const channel of channels) this.#touch(channel, uuid, timeoutMs);
  }

  leave(channel: string, uuid: string, action: "leave" | "timeout"): void {
    const members = this.#members.get(channel);
    const member = members?.get(uuid);
    if (!member) return;
    clearTimeout(member.timer);
    members?.delete(uuid);
    this.#announce(channel, uuid, action);
  }

  close(): void {
    for (const members of this.#members.values()) for (const { timer } of members.values()) clearTimeout(timer);
    for (const wake of [...this.#waiting]) wake();
  }

  #touch(channel: string, uuid: string, askedMs: number): Member {
    const timeoutMs = this.#options.presenceTimeoutMs ?? askedMs;
    const members = this.#members.get(channel) ?? new Map<string, Member>();
    this.#members.set(channel, members);
    let member = members.get(uuid);
    if (!member) {
      member = { polls: 0, timer: undefined };
      members.set(uuid, member);
      this.#announce(channel, uuid, "join");
    }
    const known = member;
    clearTimeout(known.timer);
    const look = (): void => {
      if (known.polls > 0) known.timer = setTimeout(look, timeoutMs);
      else this.leave(channel, uuid, "timeout");
    };
    known.timer = setTimeout(look, timeoutMs);
    return known;
  }

  #announce(channel: string, uuid: string, action: string): void {
    const occupancy = this.#members.get(channel)?.size ?? 0;
    this.publish(`${channel}-pnpres`, "", { action, uuid, occupancy, timestamp: Math.floor(Date.now() / 1000) });
  }
}
