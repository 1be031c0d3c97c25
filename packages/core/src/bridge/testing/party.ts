/** A mesh with a fake clock, and clients that declare tools to it. */
import type { DeviceTool, StoredEvent } from "@leafmesh/protocol";
import type { ModelRequest } from "../../models/contract.ts";
import { type Harness, type HarnessOptions, harness } from "../../runs/testing/harness.ts";
import { testAgent, testMesh } from "../../runs/testing/mesh.ts";
import { call, calls, FunctionModel, says } from "../../runs/testing/models.ts";
import type { Closable } from "../../storage/contract.ts";
import type { DeviceToolAnswered } from "../answer-call.ts";

export type CallFrame = Extract<StoredEvent, { type: "device_tool_call" }>;

export const SEND_SMS: DeviceTool = {
  tool_id: "device_send_sms",
  description: "Send an SMS to a phone number.",
  parameters: {
    type: "object",
    properties: { to: { type: "string" }, body: { type: "string" } },
    required: ["to", "body"],
  },
};

export const SMS_ARGUMENTS = { to: "+15550001234", body: "Running late." };

/** Calls the tool once for every message, then repeats what it read of the result. */
export function callsOnce(name = SEND_SMS.tool_id, args: unknown = SMS_ARGUMENTS): FunctionModel {
  return new FunctionModel((request) => {
    const last = request.messages.at(-1);
    return last?.role === "user" && typeof last.content === "string" ? calls(call(name, args)) : says(readBy(request));
  });
}

/** The text of the newest tool result in a request. */
export function readBy({ messages }: ModelRequest): string {
  const results = messages.filter((message) => message.role === "tool");
  return results.at(-1)?.content ?? "nothing";
}

const PATIENCE_MS = 20_000;

/** Lets everything run that does not wait for a clock of the test, until the condition holds. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS;
  while (performance.now() < giveUpAt) {
    if (await isSo()) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  throw new Error("it does not come about");
}

export interface Party extends Harness {
  readonly model: FunctionModel;
  /** Opens a session with a client on its stream. */
  client(options?: { readonly executor?: boolean; readonly tools?: unknown }): Promise<Client>;
}

export async function party(model: FunctionModel = callsOnce(), more: Partial<HarnessOptions> = {}): Promise<Party> {
  const mesh = testMesh([testAgent()], {
    maxConcurrentRuns: 64,
    toolResultMaxChars: 100_000,
    maxSessionsPerKey: 10_000,
  });
  const made = await harness({ model, mesh, ...more });
  await made.engine.start();
  return {
    ...made,
    model,
    async client({ executor = false, tools = [SEND_SMS] } = {}) {
      const { sessionId } = await made.engine.createSession({ context: { device_tools: tools } });
      return Client.attach(made, sessionId, executor);
    },
  };
}

/** One client of a session: sees the frames of its stream, and posts results. */
export class Client {
  readonly frames: StoredEvent[] = [];
  readonly sessionId: string;
  readonly #harness: Harness;
  #stream: Closable | undefined;
  readonly #stop: () => void;

  private constructor(made: Harness, sessionId: string) {
    this.#harness = made;
    this.sessionId = sessionId;
    this.#stop = made.backend.subscribe(sessionId, {
      onEvents: (events) => void this.#see(events),
      onTransient() {},
    });
  }

  static async attach(made: Harness, sessionId: string, executor: boolean): Promise<Client> {
    const client = new Client(made, sessionId);
    await client.reattach(executor);
    return client;
  }

  async reattach(executor: boolean): Promise<void> {
    this.#stream = await this.#harness.backend.attachStream(this.sessionId, { executor });
  }

  async detach(): Promise<void> {
    await this.#stream?.close();
    this.#stream = undefined;
  }

  async ask(message = "Text mom."): Promise<string> {
    return (await this.#harness.engine.submit({ sessionId: this.sessionId, message })).runId;
  }

  /** What the agent said in the end. */
  async reply(runId: string): Promise<string | undefined> {
    return (await this.#harness.engine.waitForRun(runId, AbortSignal.timeout(20_000))).reply;
  }

  get calls(): readonly CallFrame[] {
    return this.frames.filter((frame) => frame.type === "device_tool_call");
  }

  async nextCall(number = 1): Promise<CallFrame> {
    await until(() => this.calls.length >= number);
    const frame = this.calls[number - 1];
    if (!frame) throw new Error("there is no such call");
    return frame;
  }

  post(frame: CallFrame, body: object = { status: "ok", result: { delivered: true } }): Promise<DeviceToolAnswered> {
    const { call_id: callId, call_token } = frame.payload;
    return this.#harness.engine.answerDeviceTool({ sessionId: this.sessionId, callId, body: { call_token, ...body } });
  }

  /** Everything that a client which comes now sees from the beginning. */
  async replay(): Promise<readonly StoredEvent[]> {
    const { backend, engine } = this.#harness;
    const events = await backend.events(this.sessionId);
    return Promise.all(events.map(async (event) => (await engine.forStream(event)) ?? event));
  }

  stop(): void {
    this.#stop();
  }

  async #see(events: readonly StoredEvent[]): Promise<void> {
    for (const event of events) this.frames.push((await this.#harness.engine.forStream(event)) ?? event);
  }
}
