/** Every route that the server describes for apps has a call here, and no call goes anywhere else. */
import { expect, it } from "vitest";
import { startTestServer } from "../../server/src/test-server.ts";
import { createClient } from "./client.ts";

const ID = "the-id";

it("calls every route of the mesh", async () => {
  const server = await startTestServer();
  const documented = server.routes
    // The page behind a text message's link is opened by a person, and devices ask for their rooms themselves.
    .filter(({ path }) => !path.startsWith("/j/") && !path.startsWith("/room-callbacks/"))
    .map(({ method, path }) => `${method} ${path.replaceAll(/\{\w+\}/g, ID)}`);
  await server.close();

  const called = new Set<string>();
  const client = createClient({
    url: "http://mesh",
    maxTries: 1,
    fetch: async (input, init) => {
      called.add(`${init?.method} ${new URL(String(input)).pathname}`);
      return Response.json({ code: "stop", message: "Enough." }, { status: 418 });
    },
  });
  const session = client.session(ID);
  const run = client.run(ID);
  const first = (stream: AsyncIterable<unknown>) => stream[Symbol.asyncIterator]().next();
  const calls: readonly Promise<unknown>[] = [
    client.request({ message: "m" }),
    first(client.stream({ message: "m" })),
    client.entryPoints(),
    client.runs.get(ID),
    client.runs.cancel(ID),
    client.sessions.create(),
    client.sessions.list(),
    session.get(),
    session.end(),
    session.query({ query: "q" }),
    session.ask({ query: "q" }),
    first(session.events()),
    session.history(),
    session.asks(),
    session.openDeviceToolCalls(),
    session.answerDeviceTool(ID, { call_token: "t", status: "ok", result: 1 }),
    client.tools.create({ slug: "t", client_owned: true, description: "d", input_schema: { type: "object" } }),
    client.tools.list(),
    client.tools.delete(ID),
    client.runs.submit({ agent_slug: "a", input: { message: "m" } }),
    run.state(),
    first(run.frames()),
    run.events(),
    run.resume([{ tool_call_id: "c", content: "x" }]),
    run.decide({ decision: "approve" }),
    run.cancel(),
    run.replay(),
    client.asks.list(),
    client.asks.get(ID),
    client.asks.cancel(ID),
    client.asks.upload(ID, { name: ID, token: "t", mediaType: "text/plain", bytes: new Uint8Array(1) }),
    client.health(),
    client.ready(),
    client.openapi(),
    client.keys(),
  ];
  const ends = await Promise.allSettled(calls);
  expect(ends.filter(({ status }) => status === "fulfilled")).toEqual([]);
  expect([...called].sort()).toEqual([...new Set(documented)].sort());
});
