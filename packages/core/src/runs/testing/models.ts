import {
  type Model,
  type ModelAnswer,
  ModelError,
  type ModelRequest,
  type ModelToolCall,
} from "../../models/contract.ts";
import { checkRequest } from "./history-checks.ts";

export function says(content: string, more: Partial<ModelAnswer> = {}): ModelAnswer {
  return { content, toolCalls: [], finishReason: "stop", ...more };
}

export function call(name: string, args: unknown = {}, id = `call_${name}`): ModelToolCall {
  return { id, name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

export function calls(...toolCalls: ModelToolCall[]): ModelAnswer {
  return { content: null, toolCalls, finishReason: "tool_calls" };
}

type Respond = (
  request: ModelRequest,
  options: { readonly number: number; readonly signal: AbortSignal; onText(text: string): void },
) => ModelAnswer | Promise<ModelAnswer>;

/** Answers by a function, keeps every request, and refuses one whose history is open, as providers do. */
export class FunctionModel implements Model {
  readonly requests: ModelRequest[] = [];
  closed = false;
  readonly #respond: Respond;

  constructor(respond: Respond) {
    this.#respond = respond;
  }

  async answer(request: ModelRequest, options: { signal: AbortSignal; onText?: (text: string) => void }) {
    checkRequest(request.messages);
    this.requests.push(request);
    const onText = options.onText ?? (() => {});
    return this.#respond(request, { number: this.requests.length, signal: options.signal, onText });
  }

  async close(): Promise<void> {
    this.closed = true;
  }
}

/** One answer after the other; a further call fails. */
export function scripted(...answers: (ModelAnswer | ModelError)[]): FunctionModel {
  return new FunctionModel((_request, { number }) => {
    const answer = answers[number - 1];
    if (!answer) throw new ModelError("unscripted", `no answer for call ${number}`);
    if (answer instanceof ModelError) throw answer;
    return answer;
  });
}

/** Never answers, and heeds its signal. */
export const silentModel = (): FunctionModel =>
  new FunctionModel(
    (_request, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new ModelError("aborted", "aborted")), { once: true });
      }),
  );
