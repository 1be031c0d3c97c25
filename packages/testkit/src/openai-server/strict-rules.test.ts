import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ChatRequest, type ChatRequestMessage, parseChatRequest } from "./chat-request.ts";
import { findRefusal } from "./strict-rules.ts";

const user: ChatRequestMessage = { role: "user", content: "hi" };
const said: ChatRequestMessage = { role: "assistant", content: "hello" };

function asking(...ids: readonly string[]): ChatRequestMessage {
  return {
    role: "assistant",
    content: null,
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "read", arguments: "{}" } })),
  };
}

const result = (id: string): ChatRequestMessage => ({ role: "tool", tool_call_id: id, content: "1" });
const tool = (name = "read", parameters: Record<string, unknown> = { type: "object" }) => ({
  type: "function" as const,
  function: { name, parameters },
});

function refusalOf(changes: Partial<ChatRequest>): string | undefined {
  return findRefusal({ model: "m", messages: [user], ...changes })?.message;
}

describe("a history", () => {
  it.each<[string, readonly ChatRequestMessage[]]>([
    ["one question", [user]],
    ["a talk", [{ role: "system", content: "Help." }, user, said, user]],
    ["calls with their results in order", [user, asking("a", "b"), result("a"), result("b")]],
    ["an id that comes back in a later turn", [user, asking("a"), result("a"), asking("a"), result("a"), said]],
    ["results and then the user", [user, asking("a"), result("a"), user]],
    ["text with its calls", [user, { ...asking("a"), content: "Let me look." }, result("a")]],
    ["an empty text", [user, { role: "assistant", content: "" }, user]],
  ])("is taken: %s", (_what, messages) => {
    expect(refusalOf({ messages: [...messages] })).toBeUndefined();
  });

  const unanswered = (ids: string) =>
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${ids}`;
  const withoutCall =
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";

  it.each<[string, readonly ChatRequestMessage[], string]>([
    ["a call without a result", [user, asking("a")], unanswered("a")],
    ["a call without its result, and the user speaks", [user, asking("a"), user], unanswered("a")],
    ["one result of two", [user, asking("a", "b"), result("a")], unanswered("b")],
    ["one result of two, and more", [user, asking("a", "b"), result("a"), said], unanswered("b")],
    ["a result without a call", [user, result("a")], withoutCall],
    ["a result of a call long gone", [user, asking("a"), result("a"), said, result("a")], withoutCall],
    ["a result for another call", [user, asking("a"), result("x")], withoutCall],
    ["a result at the start", [result("a")], withoutCall],
    ["results out of order", [user, asking("a", "b"), result("b"), result("a")], "expected 'a', got 'b'"],
    [
      "a result twice",
      [user, asking("a"), result("a"), result("a")],
      "Duplicate value for 'tool_call_id' of 'a' in message[3]",
    ],
    ["an id twice in a turn", [user, asking("a", "a"), result("a"), result("a")], "Duplicate value for 'id' of 'a'"],
    ["an id that is too long", [user, asking("x".repeat(41)), result("x".repeat(41))], "maximum length 40"],
    ["calls that are none", [user, asking()], "Invalid 'messages[1].tool_calls': empty array."],
    ["an answer that says nothing", [user, { role: "assistant", content: null }], "expected a string, got null"],
    ["an answer without content", [user, { role: "assistant" }], "expected a string, got null"],
    ["an empty list of parts", [{ role: "user", content: [] }], "Invalid 'messages[0].content': empty array."],
    ["no message", [], "Invalid 'messages': empty array."],
  ])("is refused: %s", (_what, messages, says) => {
    expect(refusalOf({ messages: [...messages] })).toContain(says);
  });

  it.each<[string, string, string]>([
    ["a name with a space", "rm -rf", "string does not match pattern"],
    ["no name", "", "string does not match pattern"],
    ["a name that is too long", "x".repeat(65), "maximum length 64"],
  ])("is refused: %s", (_what, name, says) => {
    const call = { id: "a", type: "function" as const, function: { name, arguments: "{}" } };
    const messages = [user, { role: "assistant" as const, content: null, tool_calls: [call] }, result("a")];
    expect(refusalOf({ messages })).toContain(says);
  });

  it.each(["", "{", "[1]", '"x"', "null"])("is refused: the arguments %j", (text) => {
    const call = { id: "a", type: "function" as const, function: { name: "read", arguments: text } };
    const messages = [user, { role: "assistant" as const, content: null, tool_calls: [call] }, result("a")];
    expect(refusalOf({ messages })).toContain("expected a JSON object");
  });

  it("is taken exactly when every call is answered once, in order, before anything else is said", () => {
    const message = fc.constantFrom(user, said, asking("a"), asking("a", "b"), result("a"), result("b"));
    const isClosed = (messages: readonly ChatRequestMessage[]): boolean => {
      let open: string[] = [];
      for (const each of messages) {
        if (each.role === "tool") {
          if (open.shift() !== each.tool_call_id) return false;
          continue;
        }
        if (open.length > 0) return false;
        open = each.role === "assistant" ? (each.tool_calls ?? []).map((call) => call.id) : [];
      }
      return open.length === 0;
    };
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), (messages) => {
        expect(refusalOf({ messages }) === undefined).toBe(isClosed(messages));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("a picture", () => {
  const showing = (url: string) =>
    refusalOf({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] });

  it.each(["data:image/png;base64,aW1hZ2U=", "https://example.com/a.png"])("is taken: %s", (url) => {
    expect(showing(url)).toBeUndefined();
  });

  it.each([
    "data:image/svg+xml;base64,aW1hZ2U=",
    "data:image/png;base64,",
    "data:image/png,x",
    "http://example.com/a.png",
    "x",
  ])("is refused: %s", (url) => {
    expect(showing(url)).toContain("Invalid base64 image_url");
  });
});

describe("a field", () => {
  it.each<[string, Partial<ChatRequest>, string]>([
    ["no tools in a list", { tools: [] }, "Invalid 'tools': empty array."],
    ["too many tools", { tools: Array.from({ length: 129 }, (_, each) => tool(`t${each}`)) }, "maximum length 128"],
    ["a tool's name", { tools: [tool("a b")] }, "Invalid 'tools[0].function.name'"],
    ["a tool twice", { tools: [tool(), tool()] }, "Tool names must be unique."],
    ["parameters that are no object", { tools: [tool("a", { type: "string" })] }, "Invalid schema for function 'a'"],
    ["a choice without tools", { tool_choice: "auto" }, "'tool_choice' is only allowed when 'tools'"],
    ["parallel calls without tools", { parallel_tool_calls: true }, "'parallel_tool_calls' is only allowed"],
    ["stream options without a stream", { stream_options: { include_usage: true } }, "only allowed when 'stream'"],
  ])("is refused: %s", (_what, changes, says) => {
    expect(refusalOf(changes)).toContain(says);
  });

  it("is taken: everything at once", () => {
    expect(
      refusalOf({
        tools: [tool("a"), tool("b")],
        tool_choice: "required",
        parallel_tool_calls: false,
        stream: true,
        stream_options: { include_usage: true },
      }),
    ).toBeUndefined();
  });
});

describe("a body", () => {
  it.each([
    ["not JSON", "{", "We could not parse the JSON body of your request."],
    ["without messages", '{"model":"m"}', "Invalid type for 'messages'"],
    [
      "with a tool message of parts other than text",
      '{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}',
      "messages.0.content",
    ],
    ["with a user that says null", '{"model":"m","messages":[{"role":"user","content":null}]}', "messages.0.content"],
    ["with an unknown role", '{"model":"m","messages":[{"role":"robot","content":"x"}]}', "messages.0.role"],
    ["too hot", '{"model":"m","messages":[],"temperature":3}', "temperature"],
  ])("is refused: %s", (_what, text, says) => {
    const parsed = parseChatRequest(text);
    expect(parsed.request).toBeUndefined();
    expect(parsed.request === undefined && parsed.problem.message).toContain(says);
  });
});
