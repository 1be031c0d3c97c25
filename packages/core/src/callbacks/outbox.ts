/**
 * Brings the notices of the store to their addresses: at least once, signed, each attempt claimed first so that of
 * several processes one makes it. A notice that does not arrive is tried again, more and more slowly, and given up in
 * the end; what is in the store when a process dies is sent by the next.
 */

import { AddressNotAllowed, AddressRefused, type GuardedFetch, type GuardedPost } from "@leafmesh/guarded-fetch";
import type { CallbackNotice, Clock, Logger, NewId, Timer } from "@leafmesh/protocol";
import type { CallbackSettings } from "../config/mesh.ts";
import { SealError, type Sealer } from "../security/sealer.ts";
import type { Backend, CallbackPatch, CallbackRecord } from "../storage/contract.ts";
import { callbackContext } from "./callback-url.ts";
import { eventNotice, frameNotice } from "./notice.ts";
import { signatureHeaders } from "./signature.ts";

export interface CallbackOutboxOptions {
  readonly backend: Backend;
  readonly sealer: Sealer;
  readonly fetch: Pick<GuardedFetch, "postPublic" | "postOperator">;
  readonly clock: Clock;
  readonly newId: NewId;
  /** 0 up to 1, for the spread of retries. */
  readonly random: () => number;
  readonly logger: Logger;
  /** Of the mesh in force. */
  settings(): CallbackSettings | undefined;
}

/** With doubling pauses from 2 s up to an hour: some four hours in all. */
export const MAX_ATTEMPTS = 15;
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 3_600_000;
const ATTEMPT_TIMEOUT_MS = 15_000;
/** A claimed attempt whose process died is made by another one after this. */
const CLAIM_MS = ATTEMPT_TIMEOUT_MS + 5_000;
const LOOK_EVERY_MS = 10_000;
const PAGE = 16;
/** Notices that a start keeps in mind; what is left is looked at with the next ones. */
const MOST_TAKEN_UP = 1_000;
const MAX_ANSWER_BYTES = 64 * 1024;
const LONGEST_ERROR = 200;

export class CallbackOutbox {
  readonly #options: CallbackOutboxOptions;
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;
  #working: Promise<void> | undefined;
  #again = false;
  /** When notices are to be tried again, by id. */
  readonly #retries = new Map<string, number>();

  constructor(options: CallbackOutboxOptions) {
    this.#options = options;
  }

  /** Sends what an earlier process left, and from now on what becomes due. Rejects when storage fails. */
  async start(): Promise<void> {
    await this.#takeUp();
    this.wake();
  }

  /** There may be something to send. */
  wake(): void {
    if (this.#stopping.signal.aborted) return;
    this.#again = true;
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
      if (this.#again) this.wake();
    });
  }

  /** Ends the attempts under way; they are made again by the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#timer?.cancel();
    await this.#working;
  }

  /**
   * Where no other process is, what is claimed was claimed by one that died, so it is due now. What is due later is kept
   * in mind: nobody else wakes this one for it.
   */
  async #takeUp(): Promise<void> {
    const { backend, clock } = this.#options;
    if (backend.kind !== "embedded") return;
    const now = clock.nowMs();
    for (const { id, dueAt, attempts, version } of await backend.dueCallbacks(Number.MAX_SAFE_INTEGER, MOST_TAKEN_UP)) {
      const isClaim = attempts > 0 && dueAt > now && dueAt <= now + CLAIM_MS;
      if (!isClaim) this.#retries.set(id, dueAt);
      else await backend.commit([{ kind: "callback.update", callbackId: id, version, patch: { dueAt: now } }]);
    }
  }

  async #work(): Promise<void> {
    const { backend, clock, logger } = this.#options;
    this.#timer?.cancel();
    let failed = false;
    try {
      while (this.#again && !this.#stopping.signal.aborted) {
        this.#again = false;
        const due = await backend.dueCallbacks(clock.nowMs(), PAGE);
        await Promise.all(due.map((callback) => this.#attempt(callback)));
        if (due.length === PAGE) this.#again = true;
      }
    } catch (error) {
      failed = true;
      logger.error("notices could not be sent; it is tried again", { error });
    }
    this.#lookAgain(failed);
  }

  /** When the next notice is due; sooner after a failure, and where others share the store and may leave something behind. */
  #lookAgain(failed: boolean): void {
    const { backend, clock } = this.#options;
    const looks = failed || backend.kind !== "embedded";
    const nextMs = Math.min(
      looks ? LOOK_EVERY_MS : Number.POSITIVE_INFINITY,
      ...[...this.#retries.values()].map((dueAt) => dueAt - clock.nowMs()),
    );
    if (this.#stopping.signal.aborted || nextMs === Number.POSITIVE_INFINITY) return;
    this.#timer = clock.schedule(Math.max(nextMs, 1), () => this.wake());
  }

  async #attempt(callback: CallbackRecord): Promise<void> {
    const { clock, logger } = this.#options;
    const { id, runId, attempts: before } = callback;
    this.#retries.delete(id);
    const claim = { attempts: before + 1, dueAt: clock.nowMs() + CLAIM_MS };
    const claimed = await this.#update(callback, claim);
    if (!claimed) return;
    const outcome = await this.#send(callback);
    // Nothing is known of an attempt that a stop cut short: the claim runs out and the next start repeats it.
    if (this.#stopping.signal.aborted && outcome !== "delivered") return;
    const at = clock.nowMs();
    if (outcome === "delivered") {
      await this.#update(claimed, { state: "delivered", finishedAt: at });
      return;
    }
    const lastError = outcome.why.slice(0, LONGEST_ERROR);
    if (outcome.isFinal || claimed.attempts >= MAX_ATTEMPTS) {
      logger.warn("a notice is given up", { runId, attempts: claimed.attempts, error: lastError });
      await this.#update(claimed, { state: "given_up", finishedAt: at, lastError });
      return;
    }
    const dueAt = at + this.#pause(claimed.attempts);
    if (await this.#update(claimed, { dueAt, lastError })) this.#retries.set(id, dueAt);
  }

  async #send(callback: CallbackRecord): Promise<"delivered" | { readonly why: string; readonly isFinal: boolean }> {
    const { sealer, fetch, clock, newId, settings } = this.#options;
    const { secret, allow = [], url: ownUrl } = settings() ?? {};
    if (!secret) return { why: "server.callbacks has no secret", isFinal: false };
    try {
      const { sealedUrl, runId } = callback;
      const url = sealedUrl === undefined ? ownUrl : sealer.open(sealedUrl, callbackContext(runId));
      if (url === undefined) return { why: "server.callbacks has no url any more", isFinal: true };
      const notice = await this.#notice(callback);
      if (!notice) return { why: "what it is about is not in the store any more", isFinal: true };
      const body = JSON.stringify(notice);
      const post: GuardedPost = {
        url,
        headers: {
          "content-type": "application/json",
          "user-agent": "leafmesh",
          ...signatureHeaders(secret.reveal(), clock.nowMs(), newId("nonce"), body),
        },
        body,
        timeoutMs: ATTEMPT_TIMEOUT_MS,
        maxBytes: MAX_ANSWER_BYTES,
        signal: this.#stopping.signal,
      };
      const { status } = await (sealedUrl === undefined ? fetch.postOperator(post) : fetch.postPublic(post, allow));
      if (status >= 200 && status < 300) return "delivered";
      return { why: `it was answered with the status ${status}`, isFinal: status === 410 };
    } catch (error) {
      const isFinal =
        error instanceof AddressRefused || error instanceof AddressNotAllowed || error instanceof SealError;
      return { why: error instanceof Error ? error.message : "it could not be sent", isFinal };
    }
  }

  async #notice(callback: CallbackRecord): Promise<CallbackNotice | undefined> {
    const { backend } = this.#options;
    const { runId, event, frameSeq } = callback;
    const run = await backend.run(runId);
    if (!run) return undefined;
    if (event) return eventNotice(callback, run, event);
    const [frame] = await backend.frames(runId, { after: frameSeq - 1, limit: 1 });
    return frame && frameNotice(callback, run, frame);
  }

  /** The record as it is now; `undefined` when somebody else has it. */
  async #update(callback: CallbackRecord, patch: CallbackPatch): Promise<CallbackRecord | undefined> {
    const { id: callbackId, version } = callback;
    const written = await this.#options.backend.commit([{ kind: "callback.update", callbackId, version, patch }]);
    return written.committed ? { ...callback, ...patch, version: version + 1 } : undefined;
  }

  #pause(attempts: number): number {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS);
    return Math.round(pauseMs * (1 - 0.2 * this.#options.random()));
  }
}
