/** Reads the body of a call's answer, whichever of the two forms the server chose. */
import { type AnswerLimits, createAnswerAssembly } from "./answer-assembly.ts";
import type { ModelAnswer } from "./contract.ts";
import type { Endpoint } from "./endpoint.ts";
import { badAnswerError, cutError, reportedError } from "./failures.ts";
import type { BodyReader } from "./http-transport.ts";
import { isRecord, parseJson } from "./json.ts";
import { createSseReader } from "./sse-reader.ts";

export interface AnswerReader {
  readonly read: BodyReader;
  /** After the last byte. Throws a `ModelError`, `AnswerRefused` or `SseEventTooLarge`, as `read` may. */
  end(): ModelAnswer;
}

export interface AnswerReaderOptions {
  readonly endpoint: Endpoint;
  readonly limits: AnswerLimits;
  readonly onText?: ((text: string) => void) | undefined;
}

/** A stream may be this many times larger than the answer in it: each word travels in an envelope. */
const STREAM_OVERHEAD = 16;
const JSON_OR_MARKUP = /^[{[<]/;

/**
 * Streamed or whole is decided by the first character, not by the content type: servers that ignore `stream: true`
 * exist, and so do proxies that relabel.
 */
export function createAnswerReader(options: AnswerReaderOptions): AnswerReader {
  let chosen: AnswerReader | undefined;
  return {
    read(bytes) {
      if (!chosen) {
        const start = Buffer.from(bytes.subarray(0, 64)).toString("latin1").trimStart();
        if (start === "") return "more";
        chosen = JSON_OR_MARKUP.test(start) ? wholeAnswer(options) : streamedAnswer(options);
      }
      return chosen.read(bytes);
    },
    end() {
      if (!chosen) throw cutError(options.endpoint);
      return chosen.end();
    },
  };
}

function streamedAnswer({ endpoint, limits, onText }: AnswerReaderOptions): AnswerReader {
  const assembly = createAnswerAssembly(limits);
  const maxStreamBytes = limits.maxAnswerBytes * STREAM_OVERHEAD;
  let streamBytes = 0;
  let done = false;
  let text = "";

  const sse = createSseReader({
    maxEventBytes: limits.maxAnswerBytes,
    onData(data) {
      if (done || data === "") return;
      if (data.startsWith("[DONE]")) {
        done = true;
        return;
      }
      const chunk = parseJson(data);
      if (chunk === undefined) throw badAnswerError(endpoint, "sent a chunk that is not JSON");
      if (isRecord(chunk) && isError(chunk.error)) throw reportedError(endpoint, chunk.error);
      text += assembly.add(chunk);
    },
  });

  /** One call for all the text of a network read: what came together is told together. */
  const tellText = (): void => {
    if (text === "") return;
    const told = text;
    text = "";
    onText?.(told);
  };

  return {
    read(bytes) {
      streamBytes += bytes.length;
      if (streamBytes > maxStreamBytes) throw badAnswerError(endpoint, `streamed more than ${maxStreamBytes} bytes`);
      sse.push(bytes);
      tellText();
      return done ? "enough" : "more";
    },
    end() {
      sse.end();
      tellText();
      if (!done && !assembly.finished) throw cutError(endpoint);
      return assembly.finish();
    },
  };
}

function wholeAnswer({ endpoint, limits, onText }: AnswerReaderOptions): AnswerReader {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return {
    read(bytes) {
      size += bytes.length;
      if (size > limits.maxAnswerBytes) throw badAnswerError(endpoint, `sent more than ${limits.maxAnswerBytes} bytes`);
      chunks.push(bytes);
      return "more";
    },
    end() {
      const body = parseJson(Buffer.concat(chunks).toString("utf8"));
      if (!isRecord(body)) {
        throw badAnswerError(endpoint, "sent something other than a chat completion; does base_url end in its /v1?");
      }
      if (isError(body.error)) throw reportedError(endpoint, body.error);
      const assembly = createAnswerAssembly(limits);
      const text = assembly.add(body);
      const answer = assembly.finish();
      if (text !== "") onText?.(text);
      return answer;
    },
  };
}

function isError(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false;
}
