/**
 * Records a model's answers and plays them back. A cassette is a text file, a line of JSON for each call: a digest of
 * the request, the request, the answer. It holds no key, no header and no image, only the image's SHA-256; the texts of
 * the conversation it does hold.
 */
import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "@leafmesh/protocol";
import canonicalize from "canonicalize";
import * as z from "zod";
import {
  type ChatMessage,
  type ImagePart,
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
} from "./contract.ts";
import { isRecord, parseJson } from "./json.ts";

export const CASSETTE_START = '{"cassette":1,';
/** Largest cassette that is played. */
export const MAX_CASSETTE_BYTES = 64 * 1024 * 1024;

const answerSchema = z.strictObject({
  content: z.string().nullable(),
  toolCalls: z.array(z.strictObject({ id: z.string(), name: z.string(), arguments: z.string() })),
  finishReason: z.enum(["stop", "tool_calls", "length", "content_filter", "other"]),
  usage: z.strictObject({ inputTokens: z.int(), outputTokens: z.int() }).optional(),
}) satisfies z.ZodType<ModelAnswer>;

const lineSchema = z.strictObject({
  cassette: z.literal(1),
  digest: z.string(),
  request: z.record(z.string(), z.json()),
  answer: answerSchema,
});

/**
 * Adds every answer of `model` to the file, which is made if it is not there, readable for its owner alone. A line that
 * cannot be written is logged and the answer given all the same.
 */
export function createRecorder(
  model: Model,
  { path, logger }: { readonly path: string; readonly logger: Logger },
): Model {
  let file: Promise<FileHandle> | undefined;
  let lastWrite: Promise<unknown> = Promise.resolve();

  const openFile = async (): Promise<FileHandle> => {
    await mkdir(dirname(path), { recursive: true });
    return open(path, "a", 0o600);
  };

  /** One line after the other: appended parts of two must not mix. */
  const append = (line: string): Promise<void> => {
    const write = lastWrite.then(async () => {
      file ??= openFile();
      await (await file).appendFile(line);
    });
    lastWrite = write.catch(() => {});
    return write;
  };

  return {
    async answer(request, options) {
      const answer = await model.answer(request, options);
      try {
        const { digest, recorded } = describeRequest(request);
        await append(`${JSON.stringify({ cassette: 1, digest, request: recorded, answer })}\n`);
      } catch (error) {
        logger.error("A model call could not be recorded", { path, error });
      }
      return answer;
    },
    async close() {
      await model.close();
      await lastWrite;
      const opened = await file?.catch(() => undefined);
      await opened?.close();
    },
  };
}

/**
 * Plays a cassette. The same request gets the same answer; one that was asked several times gets its answers in their
 * order, the last again and again. Throws a {@link ModelError} of the kind `unscripted` for a text that is no cassette,
 * and answers a request that was not recorded with one that shows the first difference to the nearest that was.
 */
export function createPlayer(text: string, name: string): Model {
  const tracks = readTracks(text, name);
  const byDigest = Map.groupBy(tracks, (track) => track.digest);
  const played = new Map<string, number>();

  return {
    async answer(request, { signal, onText }) {
      if (signal.aborted) throw new ModelError("aborted", `The call to ${name} was aborted.`, { cause: signal.reason });
      const { digest, recorded } = describeRequest(request);
      const takes = byDigest.get(digest);
      const take = played.get(digest) ?? 0;
      const track = takes?.[Math.min(take, takes.length - 1)];
      if (!track) throw notRecorded(name, recorded, tracks);
      played.set(digest, take + 1);
      if (track.answer.content) onText?.(track.answer.content);
      return track.answer;
    },
    async close() {},
  };
}

interface Track {
  readonly line: number;
  readonly digest: string;
  readonly request: unknown;
  readonly answer: ModelAnswer;
}

function readTracks(text: string, name: string): readonly Track[] {
  const tracks: Track[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const parsed = lineSchema.safeParse(parseJson(line));
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      const place = [`${name}:${index + 1}`, ...(issue?.path ?? []).map(String)].join(" ");
      throw new ModelError("unscripted", `${place}: not a line of a cassette (${issue?.message}); was it cut off?`);
    }
    const { digest, request, answer } = parsed.data;
    tracks.push({ line: index + 1, digest, request, answer });
  }
  if (tracks.length === 0) throw new ModelError("unscripted", `${name}: the cassette is empty`);
  return tracks;
}

/** The request as it is recorded, and its digest, which does not depend on the order of keys. */
function describeRequest(request: ModelRequest): { readonly digest: string; readonly recorded: unknown } {
  const { model, tools, toolChoice, parallelToolCalls, temperature, maxTokens } = request;
  const messages = request.messages.map(withoutImageBytes);
  const written = { model, messages, tools, toolChoice, parallelToolCalls, temperature, maxTokens };
  const recorded: unknown = JSON.parse(withStableIds(JSON.stringify(written)));
  const digest = createHash("sha256")
    .update(canonicalize(recorded) ?? "")
    .digest("hex");
  return { digest, recorded };
}

/** An id of this mesh: a prefix, perhaps the time, and 22 random characters. */
const MESH_ID = /\b([a-z]{2,16})_(?:[A-Za-z0-9_-]{6})?[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])/g;

/** Ids that the mesh makes anew in every run become numbers in order of appearance, so that a replay can meet them. */
function withStableIds(json: string): string {
  const numbers = new Map<string, number>();
  return json.replaceAll(MESH_ID, (id, prefix: string) => {
    const number = numbers.get(id) ?? numbers.size + 1;
    numbers.set(id, number);
    return `${prefix}_${number}`;
  });
}

function withoutImageBytes(message: ChatMessage): unknown {
  if (message.role !== "user" || typeof message.content === "string") return message;
  return { ...message, content: message.content.map((part) => (part.type === "image" ? hashed(part) : part)) };
}

function hashed({ type, mediaType, base64 }: ImagePart): unknown {
  return { type, mediaType, sha256: createHash("sha256").update(base64, "base64").digest("hex") };
}

function notRecorded(name: string, request: unknown, tracks: readonly Track[]): ModelError {
  const nearest = tracks.reduce((best, track) =>
    sameMessages(track.request, request) > sameMessages(best.request, request) ? track : best,
  );
  const difference = findDifference(nearest.request, request, "");
  const detail = difference
    ? `differs at ${difference.path}: recorded ${show(difference.recorded)}, came ${show(difference.came)}`
    : "has another digest, so the cassette was changed by hand";
  return new ModelError(
    "unscripted",
    `${name} holds no answer to this call. The nearest recorded one (line ${nearest.line}) ${detail}.`,
  );
}

/** How many messages the two have in common, from the first on. */
function sameMessages(recorded: unknown, came: unknown): number {
  const left = messagesOf(recorded);
  const right = messagesOf(came);
  const first = left.findIndex((message, index) => findDifference(message, right[index], "") !== undefined);
  return first < 0 ? left.length : first;
}

function messagesOf(request: unknown): readonly unknown[] {
  return isRecord(request) && Array.isArray(request.messages) ? request.messages : [];
}

interface Difference {
  readonly path: string;
  readonly recorded: unknown;
  readonly came: unknown;
}

function findDifference(recorded: unknown, came: unknown, path: string): Difference | undefined {
  if (Array.isArray(recorded) && Array.isArray(came)) {
    for (let index = 0; index < Math.max(recorded.length, came.length); index++) {
      const found = findDifference(recorded[index], came[index], `${path}[${index}]`);
      if (found) return found;
    }
    return undefined;
  }
  if (isRecord(recorded) && isRecord(came)) {
    for (const key of new Set([...Object.keys(recorded), ...Object.keys(came)])) {
      const found = findDifference(recorded[key], came[key], path === "" ? key : `${path}.${key}`);
      if (found) return found;
    }
    return undefined;
  }
  return recorded === came ? undefined : { path, recorded, came };
}

const LONGEST_SHOWN = 200;

function show(value: unknown): string {
  const text = value === undefined ? "nothing" : JSON.stringify(value);
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}
