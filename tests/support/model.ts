/** A model that does what the message says, behind a server that refuses what a real provider refuses. */
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";

/** Arguments of a `device_action` call, or of a call of another `tool`. */
export interface Wanted {
  readonly tool?: string;
  readonly device?: string;
  readonly action?: string;
  readonly inputs?: unknown;
}

/** The message that makes the model ask for all of these in one turn. */
export function callFor(...wanted: readonly Wanted[]): string {
  return `CALL ${JSON.stringify(wanted)}`;
}

/** Every request body that the model got, for the test that looks for secrets in them. */
export const allModelRequests: string[] = [];

export interface ObedientModel {
  readonly server: OpenAIServer;
  /** The `models:` section that points at it. */
  readonly yaml: string;
  close(): Promise<void>;
}

export interface ObedientModelOptions {
  /** The model answers to what the user said last when this resolves. */
  readonly before?: (said: string) => Promise<void>;
}

/** A reply names the results that the model was given, as `RESULT [...]`. */
export async function startObedientModel({ before }: ObedientModelOptions = {}): Promise<ObedientModel> {
  const server = await startOpenAIServer({
    async handler(request) {
      allModelRequests.push(JSON.stringify(request));
      await before?.(String(request.messages.findLast((message) => message.role === "user")?.content));
      const lastCall = request.messages.findLastIndex((message) => message.role === "assistant");
      const said = request.messages.slice(lastCall + 1);
      const results = said.flatMap((message) => (message.role === "tool" ? [String(message.content)] : []));
      if (results.length > 0) {
        const images = said.flatMap((message) =>
          message.role === "user" && Array.isArray(message.content)
            ? message.content.filter((part) => part.type === "image_url")
            : [],
        );
        return { content: `RESULT [${results.join(",")}]${images.length > 0 ? ` IMAGES ${images.length}` : ""}` };
      }
      const text = said.findLast((message) => message.role === "user")?.content;
      if (typeof text !== "string" || !text.startsWith("CALL ")) return { content: `You said: ${String(text)}` };
      const wanted = JSON.parse(text.slice("CALL ".length)) as readonly Wanted[];
      return { toolCalls: wanted.map(({ tool = "device_action", ...each }) => ({ name: tool, arguments: each })) };
    },
  });
  return {
    server,
    yaml: `models:\n  test: { base_url: "${server.baseUrl}", api_key: "model-key" }\n`,
    close: () => server.close(),
  };
}

/** The results that a reply quotes. */
export function resultsIn(reply: string | undefined): readonly Record<string, unknown>[] {
  const match = /^RESULT (\[.*\])(?: IMAGES \d+)?$/s.exec(reply ?? "");
  if (!match?.[1]) throw new Error(`not the reply of an obedient model: ${reply}`);
  return JSON.parse(match[1]) as readonly Record<string, unknown>[];
}
