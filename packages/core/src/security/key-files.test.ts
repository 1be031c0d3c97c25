import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRingSigner, isRingFrom, type LogFields, silentLogger } from "@leafmesh/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadMeshKey } from "./mesh-key.ts";
import { createSealer } from "./sealer.ts";
import { loadSecretKey } from "./secret-key.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "leafmesh-keys-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index * 7));
const modeOf = (path: string): number => statSync(path).mode & 0o777;

describe("the secret key", () => {
  it("comes from the environment in hex, base64 and URL-safe base64", async () => {
    const base64 = KEY.toString("base64");
    const forms = [
      KEY.toString("hex"),
      KEY.toString("hex").toUpperCase(),
      base64,
      base64.replace("=", ""),
      KEY.toString("base64url"),
      `${base64}\n`,
    ];
    for (const text of forms) {
      const key = await loadSecretKey({ env: { LEAFMESH_SECRET_KEY: text }, folder: join(folder, "unused") });
      expect(Buffer.from(key).equals(KEY)).toBe(true);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it("in the environment that is not 32 bytes is refused, without repeating it", async () => {
    const values = [
      "short",
      KEY.subarray(1).toString("hex"),
      `${KEY.toString("hex")}00`,
      KEY.toString("base64").slice(4),
      "!".repeat(44),
      "password".repeat(8),
    ];
    for (const value of values) {
      const loading = loadSecretKey({ env: { LEAFMESH_SECRET_KEY: value }, folder });
      await expect(loading, value).rejects.toMatchObject({
        name: "SecretKeyError",
        message: "LEAFMESH_SECRET_KEY is not 32 bytes in base64 or hex; make one with: openssl rand -base64 32",
      });
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it("is made once, for its owner alone whatever the umask, and said so without the key", async () => {
    const lines: { message: string; fields: LogFields | undefined }[] = [];
    const logger = {
      ...silentLogger,
      info: (message: string, fields?: LogFields) => void lines.push({ message, fields }),
    };
    const before = process.umask(0);
    try {
      const data = join(folder, "deep", "data");
      const key = await loadSecretKey({ env: {}, folder: data, logger });
      expect(key).toHaveLength(32);
      expect(modeOf(join(data, "secret.key"))).toBe(0o600);
      expect(modeOf(data)).toBe(0o700);
      expect(readdirSync(data)).toEqual(["secret.key"]);
      expect(lines).toEqual([
        { message: expect.stringContaining("keep a copy"), fields: { path: join(data, "secret.key") } },
      ]);
      expect(await loadSecretKey({ env: { LEAFMESH_SECRET_KEY: "" }, folder: data, logger })).toEqual(key);
      expect(lines).toHaveLength(1);
      const text = readFileSync(join(data, "secret.key"), "utf8").trim();
      expect(await loadSecretKey({ env: { LEAFMESH_SECRET_KEY: text }, folder })).toEqual(key);
    } finally {
      process.umask(before);
    }
  });

  it("is the same for all that make it at once", async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, () => loadSecretKey({ env: {}, folder })));
    expect(new Set(keys.map((key) => Buffer.from(key).toString("hex"))).size).toBe(1);
    expect(readdirSync(folder)).toEqual(["secret.key"]);
  });

  it("in a file that others may read is refused, with the cure", async () => {
    const path = join(folder, "secret.key");
    writeFileSync(path, KEY.toString("base64"));
    for (const mode of [0o644, 0o640, 0o604, 0o666]) {
      chmodSync(path, mode);
      await expect(loadSecretKey({ env: {}, folder })).rejects.toMatchObject({
        name: "KeyFileError",
        path,
        message: expect.stringMatching(
          new RegExp(`can be read by others \\(mode 0${mode.toString(8)}\\).*chmod 600 ${path}`),
        ),
      });
    }
    chmodSync(path, 0o600);
    expect(Buffer.from(await loadSecretKey({ env: {}, folder })).equals(KEY)).toBe(true);
  });

  it.for([
    ["", "empty"],
    [KEY.toString("base64").slice(0, 20), "cut off"],
    [KEY.toString("base64") + KEY.toString("base64"), "twice as long"],
    ["\u0000".repeat(32), "binary"],
    ["x".repeat(10_000), "something else"],
  ] as const)("in a file that is %j is refused and the file left alone", async ([content]) => {
    const path = join(folder, "secret.key");
    writeFileSync(path, content, { mode: 0o600 });
    await expect(loadSecretKey({ env: {}, folder })).rejects.toMatchObject({ name: "KeyFileError", path });
    expect(readFileSync(path, "utf8")).toBe(content);
  });

  it("that cannot be made is refused with its place", async () => {
    writeFileSync(join(folder, "occupied"), "");
    await expect(loadSecretKey({ env: {}, folder: join(folder, "occupied") })).rejects.toMatchObject({
      name: "KeyFileError",
      message: expect.stringContaining("occupied/secret.key cannot be"),
    });
    mkdirSync(join(folder, "secret.key"), { mode: 0o700 });
    await expect(loadSecretKey({ env: {}, folder })).rejects.toMatchObject({ name: "KeyFileError" });
  });
});

describe("the mesh key", () => {
  const sealer = createSealer(new Uint8Array(32).fill(1));
  const ring = {
    v: 1,
    ask: "ask_1",
    device: "phone-7",
    approval: "ask",
    iat: 1,
    exp: 2,
    join: { provider: "leafmesh", room: "r" },
  } as const;

  it.for([undefined, sealer])(
    "signs rings that devices recognise, before and after a restart (sealer: %o)",
    async (sealer) => {
      const first = await createRingSigner(await loadMeshKey({ folder, sealer }));
      const again = await createRingSigner(await loadMeshKey({ folder, sealer }));
      expect(again.key).toEqual(first.key);
      expect(await isRingFrom(await again.sign(ring), [first.key])).toBe(true);
      expect(await isRingFrom({ ...(await again.sign(ring)), device: "phone-8" }, [first.key])).toBe(false);
      expect(modeOf(join(folder, "mesh.key"))).toBe(0o600);
      expect(readdirSync(folder)).toEqual(["mesh.key"]);
    },
  );

  it("is not the key of another mesh", async () => {
    const first = await createRingSigner(await loadMeshKey({ folder: join(folder, "a") }));
    const second = await createRingSigner(await loadMeshKey({ folder: join(folder, "b") }));
    expect(second.key.kid).not.toBe(first.key.kid);
    expect(await isRingFrom(await second.sign(ring), [first.key])).toBe(false);
  });

  it("signs and is not handed out", async () => {
    const key = await loadMeshKey({ folder });
    expect(Object.keys(key).sort()).toEqual(["publicKey", "publicKeyHash", "signNow"]);
    const pkcs8 = Buffer.from(readFileSync(join(folder, "mesh.key"), "utf8").replace("pkcs8.", ""), "base64");
    for (const bytes of [key.publicKey, key.publicKeyHash]) {
      expect(Buffer.from(bytes.buffer).includes(pkcs8.subarray(-32))).toBe(false);
    }
  });

  it("lies sealed when there is a sealer, and an unsealed one is still taken then", async () => {
    const plain = await createRingSigner(await loadMeshKey({ folder: join(folder, "plain") }));
    await loadMeshKey({ folder: join(folder, "sealed"), sealer });
    expect(readFileSync(join(folder, "plain", "mesh.key"), "utf8")).toMatch(/^pkcs8\.MC4CAQAwBQYDK2Vw/);
    expect(readFileSync(join(folder, "sealed", "mesh.key"), "utf8")).not.toContain("MC4CAQAwBQYDK2Vw");
    expect((await createRingSigner(await loadMeshKey({ folder: join(folder, "plain"), sealer }))).key).toEqual(
      plain.key,
    );
  });

  it("that does not open is refused, and the file left alone", async () => {
    await loadMeshKey({ folder, sealer });
    const path = join(folder, "mesh.key");
    const content = readFileSync(path, "utf8");
    await expect(loadMeshKey({ folder })).rejects.toMatchObject({
      name: "KeyFileError",
      message: `${path} is sealed and the mesh was started without its secret key`,
    });
    await expect(loadMeshKey({ folder, sealer: createSealer(new Uint8Array(32)) })).rejects.toMatchObject({
      name: "KeyFileError",
      message: expect.stringContaining("does not open with this secret key; start with the one it was made with"),
    });
    expect(readFileSync(path, "utf8")).toBe(content);
  });

  it.for(["", "pkcs8.AAAA", "-----BEGIN PRIVATE KEY-----", "pkcs8.", "sealed"])(
    "that is %j is refused",
    async (content) => {
      writeFileSync(join(folder, "mesh.key"), content, { mode: 0o600 });
      await expect(loadMeshKey({ folder })).rejects.toMatchObject({
        name: "KeyFileError",
        message: expect.stringContaining("does not hold an Ed25519 key; restore it from a backup"),
      });
    },
  );

  it("of another kind is refused", async () => {
    const rsa = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
    const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", rsa.privateKey)).toString("base64");
    writeFileSync(join(folder, "mesh.key"), `pkcs8.${pkcs8}`, { mode: 0o600 });
    await expect(loadMeshKey({ folder })).rejects.toMatchObject({ name: "KeyFileError" });
  });
});
