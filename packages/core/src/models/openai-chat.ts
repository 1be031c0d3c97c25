/**
 * A model behind OpenAI chat completions, streamed, at any address that speaks them.
 * https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Clock, Logger } from "@leafmesh/protocol";
import { type AnswerLimits, AnswerRefused, DEFAULT_ANSWER_LIMITS } from "./answer-assembly.ts";
import { type AnswerReader, createAnswerReader } from "./answer-reader.ts";
import { type Model, type ModelAnswer, ModelError, type ModelRequest } from "./contract.ts";
import { type Endpoint, type EndpointSettings, resolveEndpoint } from "./endpoint.ts";
import { badAnswerError, connectionError, type RefusedCall, statusError } from "./failures.ts";
import { type BodyReader, ConnectionFailed, createHttpTransport, type TransportTimeouts } from "./http-transport.ts";
import { encodeRequest, OPTIONAL_FIELDS, type OptionalField } from "./openai-request.ts";
import { SseEventTooLarge } from "./sse-reader.ts";
import { readVendorError } from "./vendor-error.ts";

export interface OpenAIChatOptions {
  readonly endpoint: EndpointSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timeouts?: TransportTimeouts | undefined;
  readonly limits?: AnswerLimits | undefined;
}

const MAX_ERROR_BODY_BYTES = 64 * 1024;

/** Opens nothing until the first call. Throws a {@link ModelError} when the settings cannot work. */
export function createOpenAIChatModel(options: OpenAIChatOptions): Model {
  const { clock, logger, limits = DEFAULT_ANSWER_LIMITS } = options;
  const endpoint = resolveEndpoint(options.endpoint);
  const transport = createHttpTransport(endpoint, { clock, timeouts: options.timeouts });
  const refusals = createRefusalMemory();
  if (endpoint.isPlaintext && !endpoint.isLoopback) {
    logger.warn("Model calls, key included, travel without TLS to another machine", { endpoint: endpoint.title });
  }

  /** One exchange: the answer, or what the server said instead. */
  const exchange = async (body: string, call: Parameters<Model["answer"]>[1]): Promise<ModelAnswer | RefusedCall> => {
    let reader: AnswerReader | ErrorBodyReader | undefined;
    try {
      await transport.post({
        path: endpoint.path,
        headers: endpoint.headers,
        body,
        signal: call.signal,
        onHead(status, headers) {
          const isAnswer = status >= 200 && status < 300;
          reader = isAnswer
            ? createAnswerReader({ endpoint, limits, onText: call.onText })
            : createErrorBodyReader(status, headers);
          return reader.read;
        },
      });
      if (!reader) throw new Error("the transport resolved without an answer");
      return reader.end();
    } catch (cause) {
      throw translate(endpoint, cause, call.signal);
    }
  };

  return {
    async answer(request, call) {
      // Each round but the last learns of one more field that this server refuses, and there are only so many.
      for (;;) {
        const refused = refusals.of(request.model);
        const outcome = await exchange(encodeRequest(request, refused), call);
        if (!("status" in outcome)) return outcome;
        const field = findRefusedField(outcome, request, refused);
        if (!field) throw statusError(endpoint, request.model, outcome, clock.nowMs());
        refusals.add(request.model, field);
        logger.info("The model endpoint refuses a field; it is left out from now on", {
          endpoint: endpoint.title,
          model: request.model,
          field,
        });
      }
    },
    close: () => transport.close(),
  };
}

interface ErrorBodyReader {
  readonly read: BodyReader;
  end(): RefusedCall;
}

function createErrorBodyReader(status: number, headers: IncomingHttpHeaders): ErrorBodyReader {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return {
    read(bytes) {
      const taken = bytes.subarray(0, MAX_ERROR_BODY_BYTES - size);
      chunks.push(taken);
      size += taken.length;
      return size < MAX_ERROR_BODY_BYTES ? "more" : "enough";
    },
    end: () => ({ status, headers, body: Buffer.concat(chunks).toString("utf8") }),
  };
}

/** "Not known here", as opposed to "known, but this value is wrong", in the words of OpenAI, Azure, vLLM, Mistral, Groq. */
const NOT_KNOWN =
  /unsupported|not supported|not support\b|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra input|extra field/i;

/** Which optional field the server says it does not take, if the request held it. */
function findRefusedField(
  call: RefusedCall,
  request: ModelRequest,
  refused: ReadonlySet<OptionalField>,
): OptionalField | undefined {
  if (call.status !== 400 && call.status !== 422) return undefined;
  const { code = "", message = "", param } = readVendorError(call.body);
  if (!NOT_KNOWN.test(message) && !/^(?:unsupported|unknown)_/.test(code)) return undefined;
  const wasSent: Record<OptionalField, boolean> = {
    stream_options: true,
    parallel_tool_calls: request.tools.length > 0 && !request.parallelToolCalls,
    max_tokens: request.maxTokens !== undefined,
    temperature: request.temperature !== undefined,
  };
  return OPTIONAL_FIELDS.find(
    (field) => wasSent[field] && !refused.has(field) && (param === field || new RegExp(`\\b${field}\\b`).test(message)),
  );
}

interface RefusalMemory {
  of(model: string): ReadonlySet<OptionalField>;
  add(model: string, field: OptionalField): void;
}

/** What the server refuses is remembered for all its models; what a model refuses, for that model. */
function createRefusalMemory(): RefusalMemory {
  const byServer = new Set<OptionalField>();
  const byModel = new Map<string, Set<OptionalField>>();
  return {
    of: (model) => new Set([...byServer, ...(byModel.get(model) ?? [])]),
    add(model, field) {
      if (field === "stream_options" || field === "parallel_tool_calls") {
        byServer.add(field);
        return;
      }
      const known = byModel.get(model) ?? new Set();
      byModel.set(model, known.add(field));
    },
  };
}

function translate(endpoint: Endpoint, cause: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return new ModelError("aborted", `The call to ${endpoint.title} was aborted.`, { cause });
  if (cause instanceof ConnectionFailed) return connectionError(endpoint, cause.cause, cause.answering);
  if (cause instanceof AnswerRefused) return badAnswerError(endpoint, `sent an answer that ${cause.message}`, cause);
  if (cause instanceof SseEventTooLarge) return badAnswerError(endpoint, `sent too much at once: ${cause.message}`);
  return cause;
}
