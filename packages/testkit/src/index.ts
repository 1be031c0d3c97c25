export { createFakeClock, type FakeClock } from "./fake-clock.ts";
export type { ServerAnswer, ServerToolCall } from "./openai-server/answer-frames.ts";
export type { ChatRequest, ChatRequestMessage } from "./openai-server/chat-request.ts";
export type { Fault, FaultName } from "./openai-server/faults.ts";
export {
  FIXED_TEXT,
  type OpenAIServer,
  type OpenAIServerOptions,
  type ReceivedRequest,
  type ServerHandler,
  startOpenAIServer,
} from "./openai-server/server.ts";
export { findRefusal, type Refusal } from "./openai-server/strict-rules.ts";
