import type { IncomingHttpHeaders } from "node:http";
import type { UploadTarget } from "@leafmesh/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startWebServer, type WebServer } from "../testing/web-server.ts";
import { type UploadFile, uploadFile } from "./uploads.ts";

let server: WebServer;
let answer: { status: number; body?: string };
const requests: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[] = [];

beforeEach(async () => {
  requests.length = 0;
  answer = { status: 201, body: "{}" };
  server = await startWebServer(({ method = "", url = "", headers }, body, response) => {
    requests.push({ method, url, headers, body: body.toString() });
    response.writeHead(answer.status, answer.status === 302 ? { location: "http://127.0.0.1:1/" } : {});
    response.end(answer.body);
  });
});
afterEach(() => server.close());

const file: UploadFile = { name: "photo.png", bytes: new TextEncoder().encode("bytes"), mediaType: "image/png" };

function target(changes: Partial<UploadTarget> = {}): UploadTarget {
  return { url: `${server.url}/api/asks/ask_1/uploads`, token: "one-use", max_bytes: 100, ...changes };
}

function upload(
  to: UploadTarget | undefined,
  changes: Partial<UploadFile> = {},
  signal = new AbortController().signal,
) {
  return uploadFile(to, { ...file, ...changes }, { fetch, signal });
}

describe("uploadFile", () => {
  it("puts the file where the task says, with its one-use token", async () => {
    expect(await upload(target())).toEqual({ upload: "photo.png", media_type: "image/png", size: 5 });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({
      method: "PUT",
      url: "/api/asks/ask_1/uploads/photo.png",
      headers: { authorization: "Bearer one-use", "content-type": "image/png" },
      body: "bytes",
    });
  });

  it("sends nothing when the mesh takes no files", async () => {
    await expect(upload(undefined)).rejects.toMatchObject({ kind: "not_offered" });
  });

  it("sends nothing in clear to another machine", async () => {
    await expect(upload(target({ url: "http://mesh.example.com/up" }))).rejects.toMatchObject({ kind: "not_offered" });
  });

  it("sends nothing that is too large", async () => {
    await expect(upload(target({ max_bytes: 4 }))).rejects.toThrow("photo.png has 5 bytes, the mesh takes 4");
    expect(requests).toEqual([]);
  });

  it.each(["", "../../etc/passwd", "a/b.png", "ünï.png", "x".repeat(65)])(
    "sends nothing under the name %j",
    async (name) => {
      await expect(upload(target(), { name })).rejects.toMatchObject({ kind: "bad_name" });
      expect(requests).toEqual([]);
    },
  );

  it("says why the mesh refused", async () => {
    answer = { status: 401, body: '{"error":{"code":"bad_token","message":"The upload token is wrong."}}' };
    await expect(upload(target())).rejects.toMatchObject({
      kind: "refused",
      message: "The mesh did not take photo.png: The upload token is wrong.",
    });
    answer = { status: 500, body: "<html>" };
    await expect(upload(target())).rejects.toThrow("status 500");
  });

  it("does not follow the mesh elsewhere", async () => {
    answer = { status: 302 };
    await expect(upload(target())).rejects.toMatchObject({ kind: "unreachable" });
  });

  it("ends when its task is stopped", async () => {
    const stop = new AbortController();
    stop.abort();
    await expect(upload(target(), {}, stop.signal)).rejects.toMatchObject({ kind: "unreachable" });
  });
});
