/** One request and its whole answer. On undici's dispatcher: a stream for every short answer costs more than the request. */
import type { IncomingHttpHeaders } from "node:http";
import { AnswerTooLarge } from "@leafmesh/guarded-fetch";
import type { Dispatcher } from "undici";
import { MAX_ANSWER_BYTES } from "./answer.ts";

export interface Exchanged {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/**
 * Resolves with the whole answer. Rejects with the network's error, with `AnswerTooLarge`, or with the signal's reason, at
 * once, wherever the request is by then: waiting for a connection, written, or half answered.
 */
export function exchange(
  dispatcher: Dispatcher,
  request: Pick<Dispatcher.DispatchOptions, "origin" | "path" | "method" | "headers" | "body">,
  signal: AbortSignal,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let status = 0;
    let headers: IncomingHttpHeaders = {};
    let running: Dispatcher.DispatchController | undefined;

    const fail = (error: Error): void => {
      signal.removeEventListener("abort", giveUp);
      reject(error);
    };
    const giveUp = (): void => {
      running?.abort(signal.reason);
      fail(signal.reason);
    };
    signal.addEventListener("abort", giveUp, { once: true });

    dispatcher.dispatch(request, {
      onRequestStart(controller) {
        running = controller;
        if (signal.aborted) controller.abort(signal.reason);
      },
      onResponseStart(_controller, statusCode, received) {
        // The last one counts: those below 200 only announce it.
        status = statusCode;
        headers = received;
      },
      onResponseData(controller, chunk) {
        size += chunk.byteLength;
        if (size > MAX_ANSWER_BYTES) controller.abort(new AnswerTooLarge("too much"));
        else chunks.push(chunk);
      },
      onResponseEnd() {
        signal.removeEventListener("abort", giveUp);
        resolve({ status, headers, text: Buffer.concat(chunks).toString("utf8") });
      },
      onResponseError: (_controller, error) => fail(error),
    });
  });
}
