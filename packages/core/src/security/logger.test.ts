import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLogger, type LoggerOptions, type RedactingLogger } from "./logger.ts";

const START = Date.UTC(2030, 0, 2, 3, 4, 5, 678);
/** Characters that a terminal, an editor or a line reader acts on. */
const OBEYED = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]$/u;
const MARKER = "canary+/token==8f14e45f-ce/ü";

interface Captured {
  readonly logger: RedactingLogger;
  /** Everything that was written. */
  text(): string;
  /** The only line, parsed. */
  line(): Record<string, unknown>;
  readonly stream: { writableLength: number };
}

function capture(options: Partial<LoggerOptions> = {}): Captured {
  let written = "";
  const stream = {
    writableLength: 0,
    write(line: string) {
      written += line;
      return true;
    },
  };
  const logger = createLogger({ level: "debug", stream, format: "json", clock: createFakeClock(START), ...options });
  return {
    logger,
    stream,
    text: () => written,
    line() {
      const lines = written.split("\n");
      expect(lines).toHaveLength(2);
      return JSON.parse(lines[0] ?? "");
    },
  };
}

describe("a log line", () => {
  it("is one JSON object with time, level, message and fields", () => {
    const { logger, text } = capture();
    logger.info("a run has ended", { run_id: "run_1", duration_ms: 12, ok: true, none: null, left_out: undefined });
    expect(text()).toBe(
      '{"time":"2030-01-02T03:04:05.678Z","level":"info","message":"a run has ended","run_id":"run_1","duration_ms":12,"ok":true,"none":null}\n',
    );
  });

  it("for people shows the same", () => {
    const { logger, text } = capture({ format: "pretty" });
    logger.warn('the device "phone-7" is gone', { session_id: "ses_1", list: [1, 2] });
    expect(text()).toBe('2030-01-02T03:04:05.678Z WARN  the device "phone-7" is gone session_id="ses_1" list=[1,2]\n');
  });

  it("for people has the level in colour when asked", () => {
    const { logger, text } = capture({ format: "pretty", colors: true });
    logger.error("broken");
    expect(text()).toBe("2030-01-02T03:04:05.678Z \u001b[31mERROR\u001b[0m broken\n");
  });

  it("is written from its level upwards", () => {
    const written = (["debug", "info", "warn", "error", "silent"] as const).map((level) => {
      const { logger, text } = capture({ level });
      for (const name of ["debug", "info", "warn", "error"] as const) logger[name](name);
      return text().split("\n").length - 1;
    });
    expect(written).toEqual([4, 3, 2, 1, 0]);
  });

  it("keeps its own names when a field has one of them", () => {
    const { logger, line } = capture();
    logger.info("real", { level: "fake", message: "fake", time: "fake" });
    expect(line()).toMatchObject({ level: "info", message: "real", level_: "fake", message_: "fake", time_: "fake" });
  });
});

describe("text from outside", () => {
  const hostile = [
    "line one\nline two",
    "carriage\rreturn",
    '\u001b[31mred\u001b[0m","level":"error"}',
    "\u009b31m C1",
    "\u0085\u2028\u2029 breaks",
    "\u202egnp.exe \u2066 hidden \u2069",
    "nul \0 bell \u0007 delete \u007f",
    "\ud800 lone",
    "$\u007bjndi:ldap://x} {{7*7}} %s %n",
    "\ufeffbom",
    "tag \u{e0041}\u{e0042} soft\u00adhyphen zero\u200bwidth",
  ];

  it.for(["json", "pretty"] as const)("cannot break a %s line or command a terminal", (format) => {
    for (const text of hostile) {
      const captured = capture({ format });
      captured.logger.info(text, { [text]: text, deep: { [text]: [text] }, error: new Error(text) });
      const line = captured.text();
      expect(line.endsWith("\n")).toBe(true);
      expect([...line.slice(0, -1)].filter((character) => OBEYED.test(character))).toEqual([]);
      expect(line.isWellFormed()).toBe(true);
      if (format === "json") expect(captured.line()).toMatchObject({ level: "info", message: text.toWellFormed() });
    }
  });

  it("of any kind is one line that reads back", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        fc.dictionary(fc.string({ unit: "binary" }), fc.anything()),
        (message, fields) => {
          const { logger, line } = capture();
          logger.info(message, fields);
          expect(line()).toMatchObject({ level: "info", message: message.toWellFormed() });
        },
      ),
    );
  });
});

describe("values of every kind", () => {
  it("are shown as what they are", () => {
    const { logger, line } = capture();
    logger.info("values", {
      date: new Date(0),
      url: new URL("https://example.com/a"),
      big: 12345678901234567890n,
      bytes: new Uint8Array(40),
      buffer: Buffer.alloc(3),
      map: new Map([["key", 1]]),
      set: new Set(["a"]),
      symbol: Symbol("s"),
      run: () => 1,
      nan: Number.NaN,
      nothing: undefined,
      bare: Object.create(null),
    });
    expect(line()).toEqual({
      time: expect.any(String),
      level: "info",
      message: "values",
      date: "1970-01-01T00:00:00.000Z",
      url: "https://example.com/a",
      big: "12345678901234567890",
      bytes: "[40 bytes]",
      buffer: "[3 bytes]",
      map: { key: 1 },
      set: ["a"],
      symbol: "[symbol]",
      run: "[function]",
      nan: "NaN",
      bare: {},
    });
  });

  it("never make a line fail or grow without end", () => {
    const circular: Record<string, unknown> = { name: "loop" };
    circular.self = circular;
    let deep: unknown = "bottom";
    for (let level = 0; level < 20_000; level++) deep = { deep };
    const hostile = {
      circular,
      deep,
      getter: Object.defineProperty({}, "x", {
        enumerable: true,
        get() {
          throw new Error("no");
        },
      }),
      json: {
        toJSON() {
          throw new Error("no");
        },
      },
      endless: {
        toJSON() {
          return this;
        },
      },
      revoked: (() => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
      })(),
      long: "x".repeat(10_000_000),
      wide: Array.from({ length: 100_000 }, (_, index) => index),
      keys: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`key${index}`, index])),
    };
    for (const [name, value] of Object.entries(hostile)) {
      const { logger, text, line } = capture();
      logger.error("hostile", { [name]: value });
      expect(text().length, name).toBeLessThan(17_000);
      expect(line(), name).toMatchObject({ message: "hostile" });
    }
    const { logger, text, line } = capture();
    logger.error(
      "hostile",
      Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`f${index}`, "y".repeat(5_000)])),
    );
    expect(text().length).toBeLessThan(17_000);
    expect(line()).toMatchObject({ message: "hostile", cut: expect.stringMatching(/^the fields had \d+ characters$/) });
  });

  it("that are errors show their chain of causes, flat", () => {
    const root = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    const middle = new TypeError("fetch failed", { cause: root });
    const { logger, line } = capture();
    logger.error("the notifier is unavailable", { error: new Error("ring failed", { cause: middle }) });
    expect(line().error).toEqual({
      name: "Error",
      message: "ring failed",
      stack: expect.stringContaining("logger.test.ts"),
      causes: [
        { name: "TypeError", message: "fetch failed" },
        { name: "Error", message: "connect ECONNREFUSED", code: "ECONNREFUSED" },
      ],
    });
  });

  it("that are errors without an end to their causes, or of many, are bounded", () => {
    const loop = new Error("loop");
    loop.cause = loop;
    const mutual = new Error("a", { cause: new Error("b") });
    if (mutual.cause instanceof Error) mutual.cause.cause = mutual;
    for (const error of [loop, mutual]) {
      const { logger, text } = capture();
      logger.error("looping", { error });
      expect(text().length).toBeLessThan(5_000);
    }
    const { logger, line } = capture();
    logger.error("many", { error: new AggregateError([new Error("one"), "two"], "all failed") });
    expect(line().error).toMatchObject({ message: "all failed", errors: [{ message: "one" }, "two"] });
    const plain = capture();
    plain.logger.error("odd", { error: new Error("thrown", { cause: { status: 500 } }) });
    expect(plain.line().error).toMatchObject({ causes: [{ status: 500 }] });
  });
});

describe("a secret", () => {
  it("is not printed, wherever it stands", () => {
    const secret = new Secret(MARKER);
    const { logger, text } = capture();
    logger.info(`token ${secret}`, {
      secret,
      list: [secret],
      map: new Map([[secret, secret]]),
      deep: { a: { b: secret } },
    });
    logger.info("error", { error: new Error(`failed with ${secret}`, { cause: secret }) });
    expect(text()).not.toContain("canary");
    expect(text()).toContain("[redacted]");
  });

  const encodings: readonly (readonly [string, (value: string) => string])[] = [
    ["as it is", (value) => value],
    ["in JSON", (value) => JSON.stringify({ token: value })],
    ["in JSON in JSON", (value) => JSON.stringify({ body: JSON.stringify({ token: value }) })],
    ["in a URL", (value) => `https://push.example/send?to=${encodeURIComponent(value)}`],
    ["in a form", (value) => new URLSearchParams({ to: value }).toString()],
    ["in base64", (value) => Buffer.from(value).toString("base64")],
    ["in URL-safe base64", (value) => Buffer.from(value).toString("base64url")],
    ["in hex", (value) => Buffer.from(value).toString("hex")],
    ["in upper-case hex", (value) => Buffer.from(value).toString("hex").toUpperCase()],
    ["in basic authentication", (value) => `Basic ${Buffer.from(`user:${value}`).toString("base64")}`],
    ["in base64 one further", (value) => Buffer.from(`users:${value}!!`).toString("base64")],
    ["in base64 two further", (value) => Buffer.from(`userss:${value}!`).toString("base64url")],
  ];

  it.for(encodings)("that is known is found %s", ([, encode]) => {
    const { logger, text, line } = capture();
    logger.redact.add(new Secret(MARKER));
    const encoded = encode(MARKER);
    const cause = new Error(`cause ${encoded}`);
    logger.error(`message ${encoded}`, {
      [`key ${encoded}`]: [`value ${encoded}`],
      error: new Error(encoded, { cause }),
    });
    expect(line()).toMatchObject({ level: "error" });
    const core = encode(MARKER).replace(/^.*?(Basic |to=)/, "");
    for (const piece of [MARKER, core, "canary", Buffer.from("canary+/token").toString("base64").slice(2, -2)]) {
      expect(text()).not.toContain(piece);
    }
    expect(text().split("[redacted]").length).toBeGreaterThan(4);
  });

  it("that is known is found where a long text is cut", () => {
    for (const before of [1_980, 1_995, 15_980, 15_995, 16_000]) {
      const { logger, text } = capture();
      logger.redact.add(MARKER);
      logger.info("long", { body: `${"x".repeat(before)}${MARKER}${"y".repeat(20_000)}` });
      logger.info("full of it", { body: MARKER.repeat(3_000) });
      expect(text(), `${before}`).not.toContain("canary");
    }
  });

  it("that is short is left alone, as it would blank out ordinary words", () => {
    const { logger, line } = capture();
    logger.redact.add("none");
    logger.redact.add("");
    logger.info("none of it", { field: "none" });
    expect(line()).toMatchObject({ message: "none of it", field: "none" });
  });

  it("is known among a thousand others", () => {
    const { logger, text } = capture();
    for (let index = 0; index < 1_000; index++) logger.redact.add(`secret-number-${index}-of-many`);
    logger.info("first secret-number-0-of-many", { last: "secret-number-999-of-many" });
    expect(text()).not.toContain("-of-many");
  });
});

describe("a reader that stalls", () => {
  it("loses lines instead of filling the memory, and is told how many", () => {
    const { logger, stream, text } = capture();
    logger.info("one");
    stream.writableLength = 2 * 1024 * 1024;
    for (let index = 0; index < 5; index++) logger.info("lost");
    stream.writableLength = 0;
    logger.info("two");
    const lines = text()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { message: "one" },
      { level: "warn", message: "log lines were dropped because their reader was too slow", lines: 5 },
      { message: "two" },
    ]);
  });
});
