import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { aCall, aRun, aSession, aWait } from "@leafmesh/testkit/suites";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSealer } from "../security/sealer.ts";
import { type Backend, StorageError } from "../storage/contract.ts";
import { createEmbeddedBackend } from "../storage/embedded/index.ts";
import { type BroughtUpload, createUploads, type Uploads } from "./uploads.ts";

const MAX_BYTES = 1_000;
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3]);
const JPEG = new Uint8Array([0xff, 0xd8, 0xff, 0xe0, 9, 9]);
const GIF = new TextEncoder().encode("GIF89a......");
const WEBP = new TextEncoder().encode("RIFF....WEBPVP8 ....");
const text = (content: string) => new TextEncoder().encode(content);

let folder: string;
let clock: FakeClock;
let backend: Backend;
let uploads: Uploads;

function uploadsOn(store: Backend): Uploads {
  const sealer = createSealer(new Uint8Array(32).fill(3));
  return createUploads({ backend: store, sealer, clock, maxBytes: MAX_BYTES });
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "leafmesh-uploads-"));
  clock = createFakeClock();
  backend = createEmbeddedBackend({ path: join(folder, "mesh.db"), durable: false, clock, logger: silentLogger });
  await backend.migrate();
  for (const sessionId of ["ses", "other"]) {
    await backend.commit([{ kind: "session.create", session: aSession(sessionId) }]);
    await backend.commit([{ kind: "run.create", run: aRun(`run of ${sessionId}`, sessionId) }]);
  }
  await openCall("ask_1");
  await openCall("ask_2");
  uploads = uploadsOn(backend);
});
afterEach(async () => {
  await backend.close();
  rmSync(folder, { recursive: true });
});

async function openCall(id: string, sessionId = "ses"): Promise<void> {
  const wait = aWait(`wait of ${id}`, { id: `run of ${sessionId}`, sessionId }, [id]);
  await backend.commit([
    { kind: "wait.create", wait },
    { kind: "call.create", call: aCall(id, wait, { state: "offered" }) },
  ]);
}

async function settleCall(callId: string): Promise<void> {
  const settled = { state: "answered", outcome: "done", settledAt: clock.nowMs() } as const;
  await backend.commit([{ kind: "call.update", callId, version: 1, patch: settled }]);
}

function offer(callId = "ask_1", sessionId = "ses"): string {
  return uploads.offer({ callId, sessionId }).target.token.reveal();
}

function bring(token: string, changes: Partial<BroughtUpload> = {}) {
  return uploads.accept({
    callId: "ask_1",
    name: "photo.png",
    token,
    mediaType: "image/png",
    content: PNG,
    ...changes,
  });
}

const refused = (code: string) => ({ ok: false, code });

describe("an offer", () => {
  it("is a path, a token that cannot be printed, and a size", () => {
    const offered = uploads.offer({ callId: "ask_1", sessionId: "ses" });
    expect(offered.target.path).toBe("/api/asks/ask_1/uploads");
    expect(offered.maxBytes).toBe(MAX_BYTES);
    expect(offered.target.token.reveal()).toMatch(/^[A-Za-z0-9_-]{22,256}$/);
    expect(JSON.stringify(offered)).not.toContain(offered.target.token.reveal());
  });

  it("has a token of its own for each call", () => {
    expect(new Set(Array.from({ length: 100 }, (_, index) => offer(`ask_${index}`))).size).toBe(100);
  });

  it("holds over a restart, and for every process on the store", async () => {
    const token = offer();
    uploads = uploadsOn(backend);
    expect(await uploads.expects("ask_1", token)).toBe(true);
    expect(await bring(token)).toMatchObject({ ok: true });
    expect(await uploadsOn(backend).find("ask_1", "photo.png")).toMatchObject({ bytes: PNG });
  });

  it("is void once its call is settled, and what was brought stays", async () => {
    const token = offer();
    await bring(offer("ask_2"), { callId: "ask_2" });
    await settleCall("ask_1");
    await settleCall("ask_2");
    expect(await uploads.expects("ask_1", token)).toBe(false);
    expect(await bring(token)).toEqual(refused("expired"));
    expect(await uploads.find("ask_2", "photo.png")).toMatchObject({ bytes: PNG });
  });
});

describe("a file", () => {
  it("that comes with its token is stored once, and can be opened and found", async () => {
    const token = offer();
    expect(await uploads.expects("ask_1", token)).toBe(true);
    const accepted = await bring(token);
    expect(accepted).toEqual({ ok: true, uploadId: expect.stringMatching(/^upl_/), size: PNG.length });
    const uploadId = accepted.ok ? accepted.uploadId : "";
    const opened = {
      id: uploadId,
      sessionId: "ses",
      callId: "ask_1",
      name: "photo.png",
      mediaType: "image/png",
      bytes: PNG,
    };
    expect(await uploads.open(uploadId)).toEqual(opened);
    expect(await uploads.find("ask_1", "photo.png")).toEqual(opened);
    expect(await uploads.find("ask_1", "other.png")).toBeUndefined();
    expect(await uploads.find("ask_2", "photo.png")).toBeUndefined();
    expect(await uploads.expects("ask_1", token)).toBe(false);
    expect(await bring(token)).toEqual(refused("used"));
  });

  it("can be opened after a restart", async () => {
    const accepted = await bring(offer());
    const again = uploadsOn(backend);
    expect((await again.open(accepted.ok ? accepted.uploadId : ""))?.bytes).toEqual(PNG);
    expect(await again.open("upl_nowhere")).toBeUndefined();
  });

  it("is stored once when it comes twice in the same moment", async () => {
    const token = offer();
    const results = await Promise.all([bring(token), bring(token), bring(token)]);
    expect(results.filter((result) => result.ok)).toHaveLength(1);
    expect(results.filter((result) => !result.ok)).toEqual([refused("used"), refused("used")]);
  });

  it("is refused with a token that is wrong, of another call, or none at all", async () => {
    const token = offer();
    const other = offer("ask_2");
    for (const wrong of [other, "", `${token}x`, token.slice(1), token.toUpperCase(), "x".repeat(100_000)]) {
      expect(await bring(wrong)).toEqual(refused("bad_token"));
      expect(await uploads.expects("ask_1", wrong)).toBe(false);
    }
    expect(await bring(token, { callId: "ask_2" })).toEqual(refused("bad_token"));
    expect(await bring("", { callId: "ask_3" })).toEqual(refused("bad_token"));
    expect(await bring(token)).toMatchObject({ ok: true });
  });

  it("that is refused for what it is leaves the token good for another try", async () => {
    const token = offer();
    expect(await bring(token, { content: new Uint8Array([...PNG, ...new Uint8Array(MAX_BYTES)]) })).toEqual(
      refused("too_large"),
    );
    expect(await bring(token, { mediaType: "image/svg+xml" })).toEqual(refused("bad_type"));
    expect(await bring(token, { name: "../../etc/passwd" })).toEqual(refused("bad_name"));
    expect(await uploads.expects("ask_1", token)).toBe(true);
    const largest = new Uint8Array(MAX_BYTES);
    largest.set(PNG);
    expect(await bring(token, { content: largest })).toMatchObject({ ok: true, size: MAX_BYTES });
  });

  it.for([
    "",
    ".",
    "..",
    "...",
    "a/b",
    "a\\b",
    "a b",
    "a\0b",
    "a\nb",
    "ä.png",
    "x".repeat(65),
    "%2e%2e",
    "photo.png?x",
  ])("cannot be called %j", async (name) => {
    expect(await bring(offer(), { name })).toEqual(refused("bad_name"));
  });

  it.for(["a", "photo.JPG", "2030-01-02_03.04.05.png", ".hidden", "x".repeat(64)])("can be called %j", async (name) => {
    expect(await bring(offer(), { name })).toMatchObject({ ok: true });
  });

  it("whose store fails leaves the token good for another try", async () => {
    let fail = true;
    const failing: Backend = {
      ...backend,
      commit: (writes) =>
        fail ? Promise.reject(new StorageError("full", "the disk is full")) : backend.commit(writes),
    };
    uploads = uploadsOn(failing);
    const token = offer();
    await expect(bring(token)).rejects.toMatchObject({ code: "full" });
    expect(await uploads.expects("ask_1", token)).toBe(true);
    fail = false;
    expect(await bring(token)).toMatchObject({ ok: true });
  });
});

describe("the end of a session", () => {
  it("takes its files with it, and lets no other in", async () => {
    const accepted = await bring(offer());
    const late = offer("ask_2");
    await backend.commit([{ kind: "session.end", sessionId: "ses", at: clock.nowMs() }]);
    expect(await uploads.open(accepted.ok ? accepted.uploadId : "")).toBeUndefined();
    expect(await uploads.find("ask_1", "photo.png")).toBeUndefined();
    expect(await bring(late, { callId: "ask_2" })).toEqual(refused("expired"));
    expect(await bring(offer("ask_3", "no-such-session"), { callId: "ask_3" })).toEqual(refused("expired"));
  });

  it("of another conversation changes nothing", async () => {
    const accepted = await bring(offer());
    await backend.commit([{ kind: "session.end", sessionId: "other", at: clock.nowMs() }]);
    expect(await uploads.open(accepted.ok ? accepted.uploadId : "")).toBeDefined();
  });
});

describe("in the store", () => {
  it("neither the content nor the token can be read", async () => {
    const content = text(JSON.stringify({ note: "content-that-must-be-sealed" }));
    const token = offer();
    expect(await bring(token, { mediaType: "application/json", content })).toMatchObject({ ok: true });
    for (const secret of ["content-that-must-be-sealed", token]) {
      expect(spawnSync("grep", ["-r", "-q", "-a", "-F", secret, folder]).status).toBe(1);
    }
  });

  it("a content that was moved to another upload does not open", async () => {
    const first = await bring(offer());
    const record = await backend.upload(first.ok ? first.uploadId : "");
    if (!record) throw new Error("the upload is not there");
    await backend.commit([{ kind: "upload.create", upload: { ...record, id: "upl_moved" } }]);
    await expect(uploads.open("upl_moved")).rejects.toMatchObject({ name: "SealError", code: "altered" });
  });
});

describe("the type of a file", () => {
  const good: readonly (readonly [string, Uint8Array])[] = [
    ["image/png", PNG],
    ["image/jpeg", JPEG],
    ["image/gif", GIF],
    ["image/gif", text("GIF87a....")],
    ["image/webp", WEBP],
    ["IMAGE/PNG", PNG],
    ["image/png; name=x", PNG],
    ["application/json", text('{"a":[1,"ü"]}')],
    ["application/json", text("null")],
    ["text/plain", text("Grüße 🪴\n")],
    ["text/plain;charset=utf-8", text("")],
  ];
  it.for(good)("%s is taken", async ([mediaType, content]) => {
    const accepted = await bring(offer(), { mediaType, content });
    const opened = await uploads.open(accepted.ok ? accepted.uploadId : "");
    expect(opened?.mediaType).toBe(mediaType.split(";")[0]?.toLowerCase());
    expect(opened?.bytes).toEqual(content);
  });

  const bad: readonly (readonly [string, Uint8Array])[] = [
    ["image/png", JPEG],
    ["image/jpeg", PNG],
    ["image/gif", text("GIF88a....")],
    ["image/webp", text("RIFF....WAVEfmt ")],
    ["image/webp", text("RIFF....WEBP")],
    ["image/png", PNG.slice(0, 7)],
    ["image/png", new Uint8Array()],
    ["image/png", text("<svg onload=alert(1)>")],
    ["image/svg+xml", text("<svg/>")],
    ["text/html", text("<script>")],
    ["application/octet-stream", PNG],
    ["", PNG],
    ["image", PNG],
    ["constructor", PNG],
    ["application/json", text("{not json}")],
    ["application/json", new Uint8Array()],
    ["application/json", new Uint8Array([0x22, 0xff, 0x22])],
    ["text/plain", new Uint8Array([0xc3, 0x28])],
    ["text/plain", text("nul\0")],
    ["text/plain", PNG],
  ];
  it.for(bad)("%s with other content, or no such type, is refused", async ([mediaType, content]) => {
    expect(await bring(offer(), { mediaType, content })).toEqual(refused("bad_type"));
  });
});
