/** Who may come into one room: whoever holds its token, until somebody is in. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock, RoomCallback } from "@leafmesh/protocol";
import type { CallbackAnswer, CallbackRequest } from "../contract.ts";
import type { PusherOptions } from "./pusher.ts";
import { signSubscription } from "./pusher-signature.ts";

/** What Pusher knows a device by begins with this. */
const DEVICE = "device-";
/** Between the ring's end and the mesh's last word that it is over. */
const JOIN_MARGIN_MS = 10_000;
/** Holders of one ring that come at the same time. */
const MAX_COMING = 4;

export interface PusherDoorOptions {
  readonly record: PusherOptions;
  readonly channel: string;
  readonly clock: Clock;
  readonly joinWithinMs: number;
  readonly lifetimeMs: number;
  /** The person did not allow it. */
  refused(): void;
}

export class PusherDoor {
  readonly token = randomBytes(24).toString("base64url");
  readonly #options: PusherDoorOptions;
  readonly #hash: Buffer;
  readonly #joinEndsAtMs: number;
  readonly #endsAtMs: number;
  readonly #coming = new Set<string>();
  #seat: string | undefined;

  constructor(options: PusherDoorOptions) {
    const { clock, joinWithinMs, lifetimeMs } = options;
    this.#options = options;
    this.#hash = sha256(this.token);
    const nowMs = clock.monotonicMs();
    this.#endsAtMs = nowMs + lifetimeMs;
    this.#joinEndsAtMs = nowMs + Math.min(joinWithinMs + JOIN_MARGIN_MS, lifetimeMs);
  }

  /** From now on nobody but this seat is let in. */
  take(seat: string): void {
    this.#seat = seat;
  }

  answer({ token = "", callback }: CallbackRequest): CallbackAnswer {
    if (!timingSafeEqual(sha256(token), this.#hash)) return { status: "bad_token" };
    const endsAtMs = this.#seat === undefined ? this.#joinEndsAtMs : this.#endsAtMs;
    if (this.#options.clock.monotonicMs() > endsAtMs) return { status: "over" };
    return "refuse" in callback ? this.#refuse() : this.#vouch(callback);
  }

  #refuse(): CallbackAnswer {
    if (this.#seat !== undefined) return { status: "taken" };
    this.#options.refused();
    return { status: "noted" };
  }

  #vouch({ socket_id, channel_name, seat }: Exclude<RoomCallback, { refuse: unknown }>): CallbackAnswer {
    const { record, channel } = this.#options;
    if (channel_name !== channel) return { status: "wrong_channel" };
    const isFull = !this.#coming.has(seat) && this.#coming.size >= MAX_COMING;
    if (this.#seat === undefined ? isFull : seat !== this.#seat) return { status: "taken" };
    this.#coming.add(seat);
    const voucher = signSubscription(record, { socketId: socket_id, channel, userId: DEVICE + seat });
    return { status: "vouched", voucher };
  }
}

/** The seat of a device, by what Pusher knows it by. */
export function seatOf(userId: string | undefined): string | undefined {
  return userId?.startsWith(DEVICE) ? userId.slice(DEVICE.length) : undefined;
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
