/** The one call of Pusher's HTTP API that rooms need. https://pusher.com/docs/channels/library_auth_reference/rest-api/ */
import { createGuardedFetch, type GuardedFetch } from "@leafmesh/guarded-fetch";
import type { Clock } from "@leafmesh/protocol";
import type { RoomError } from "../contract.ts";
import type { PusherOptions } from "./pusher.ts";
import { pusherAnswerError, pusherSilence } from "./pusher-errors.ts";
import type { PusherPlace } from "./pusher-place.ts";
import { signedTarget } from "./pusher-signature.ts";

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024;

export interface PusherEvent {
  readonly channel: string;
  readonly name: string;
  readonly data: object;
}

/** `in_doubt`: Pusher may have taken it. */
export type Triggered =
  | { readonly status: "taken" }
  | { readonly status: "refused" | "in_doubt"; readonly error: RoomError };

export class PusherApi {
  readonly #record: PusherOptions;
  readonly #place: PusherPlace;
  readonly #clock: Clock;
  readonly #http: GuardedFetch;

  constructor(record: PusherOptions, place: PusherPlace, clock: Clock) {
    this.#record = record;
    this.#place = place;
    this.#clock = clock;
    this.#http = createGuardedFetch({ clock });
  }

  /** One request, never repeated. Never rejects. */
  async trigger({ channel, name, data }: PusherEvent, signal: AbortSignal): Promise<Triggered> {
    const path = `/apps/${this.#record.app_id}/events`;
    const body = JSON.stringify({ name, channel, data: JSON.stringify(data) });
    try {
      const answer = await this.#http.postOperator({
        url: this.#place.apiUrl + signedTarget(this.#record, path, body, this.#clock.nowMs()),
        headers: { "content-type": "application/json" },
        body,
        timeoutMs: TIMEOUT_MS,
        maxBytes: MAX_ANSWER_BYTES,
        signal,
      });
      const error = pusherAnswerError(answer);
      if (!error) return { status: "taken" };
      return { status: error.kind === "unavailable" ? "in_doubt" : "refused", error };
    } catch (error) {
      return { status: "in_doubt", error: pusherSilence(error) };
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}
