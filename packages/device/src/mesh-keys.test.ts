import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newSigner } from "../testing/rings.ts";
import { startWebServer, type WebServer } from "../testing/web-server.ts";
import { fetchMeshKeys, parseMeshKeys } from "./mesh-keys.ts";

let server: WebServer;
let answer: { status: number; body: string };

beforeEach(async () => {
  server = await startWebServer((request, _body, response) => {
    response.writeHead(request.url === "/.well-known/leafmesh-keys" ? answer.status : 404).end(answer.body);
  });
});
afterEach(() => server.close());

describe("fetchMeshKeys", () => {
  it("reads the keys that a mesh publishes", async () => {
    const { key } = await newSigner();
    answer = { status: 200, body: JSON.stringify({ keys: [key] }) };
    expect(await fetchMeshKeys(server.url)).toEqual([key]);
    expect(await fetchMeshKeys(`${server.url}/`)).toEqual([key]);
  });

  it("asks nobody in clear but this machine", async () => {
    await expect(fetchMeshKeys("http://mesh.example.com")).rejects.toThrow("is not https");
  });

  it.each([
    ["an error", { status: 500, body: "{}" }, "answered 500"],
    ["something else", { status: 200, body: "<html>" }, "did not answer with keys"],
    ["other keys", { status: 200, body: '{"keys":[{"kty":"RSA"}]}' }, "did not answer with keys"],
    ["too much", { status: 200, body: `{"keys":[],"more":"${"x".repeat(20_000)}"}` }, "did not answer with keys"],
  ])("rejects when the mesh answers with %s", async (_what, given, message) => {
    answer = given;
    await expect(fetchMeshKeys(server.url)).rejects.toThrow(message);
  });
});

describe("parseMeshKeys", () => {
  it("takes what is published and what `leafmesh keys show --json` prints", async () => {
    const { key } = await newSigner();
    expect(parseMeshKeys(JSON.stringify({ keys: [key] }))).toEqual([key]);
    expect(parseMeshKeys(JSON.stringify([key]))).toEqual([key]);
    expect(parseMeshKeys("{}")).toBeUndefined();
    expect(parseMeshKeys("null")).toBeUndefined();
  });
});
