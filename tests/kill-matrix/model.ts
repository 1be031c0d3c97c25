/** A model that asks for what the message says, turn by turn, behind a server that refuses what a real provider refuses. */
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";
import { type Face, type Play, toolCallFor } from "./wanted.ts";

/** Words of its last answer, which comes in many pieces. */
export const SAID = "This is what I was told:";

/**
 * When everything was asked for it repeats all that it was told. `stallsOnce`: the first answer that says so stops half
 * way, as long as the connection lasts.
 */
export async function startPlayModel(face: Face, stallsOnce: boolean): Promise<OpenAIServer> {
  let stalls = stallsOnce;
  const server = await startOpenAIServer({
    handler({ messages }) {
      const from = messages.findLastIndex(({ role }) => role === "user");
      const said = String(messages[from]?.content);
      if (!said.startsWith("DO ")) return { content: `You said: ${said}` };
      const play = JSON.parse(said.slice("DO ".length)) as Play;
      const since = messages.slice(from + 1);
      const turn = play[since.filter(({ role }) => role === "assistant").length];
      if (turn) return { toolCalls: turn.map((wanted) => toolCallFor(face, wanted)) };
      if (stalls) server.fail({ kind: "hang", afterFrames: 3 });
      stalls = false;
      const told = since.filter(({ role }) => role === "tool").map(({ content }) => String(content));
      return { content: `${SAID} ${JSON.stringify(told)}` };
    },
  });
  return server;
}

/** What the last answer says that the model was told, call by call. */
export function toldIn(reply: string): readonly string[] {
  if (!reply.startsWith(SAID)) throw new Error(`not the last answer of the play: ${reply}`);
  return JSON.parse(reply.slice(SAID.length)) as readonly string[];
}
