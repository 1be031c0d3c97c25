/** One case's stage: a double, a notifier over it, a clock that stands still, and an eye on secrets. */
import { inspect } from "node:util";
import {
  type Closable,
  type Notifier,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "@leafmesh/notifiers/contract";
import { type Approval, type Logger, type Ring, randomId, Secret } from "@leafmesh/protocol";
import { expect } from "vitest";
import * as z from "zod";
import { createFakeClock, type FakeClock } from "../../fake-clock.ts";
import type { VendorFault, VendorReply } from "../../notifiers/replies.ts";
import type { NotifierDouble, NotifierUnderTest, RequestPurpose } from "./under-test.ts";

export interface NotifierCase {
  readonly name: string;
  run(): Promise<void>;
}

export interface RingOptions {
  readonly approval?: Approval;
  readonly ttlMs?: number;
  readonly signal?: AbortSignal;
  /** Characters of the room's token, to make a ring of another size. */
  readonly joinTokenLength?: number;
}

export interface Stage<Double extends NotifierDouble> {
  readonly clock: FakeClock;
  readonly double: Double;
  readonly notifier: Notifier;
  /** The ring that {@link Stage.ring} sends. */
  request(options?: RingOptions): RingRequest;
  ring(options?: RingOptions): Promise<RingReceipt>;
  /** What it failed with; throws when it did not, or not with a {@link RingError}. */
  failure(ringing: Promise<unknown>): Promise<RingError>;
  /** The next request for this is answered so. */
  answerNext(purpose: RequestPurpose, reply: VendorReply | VendorFault): void;
  /** Requests of this purpose so far. */
  count(purpose: RequestPurpose): number;
  /** Resolves when one more request of this purpose has come than `before`. */
  next(purpose: RequestPurpose, before: number): Promise<void>;
}

/** What every link of a stage begins its code with. */
export const LINK_CODE = "7f3KqZ9tWmXc2LpVbN4R";
const ASK_ID = "ask_0123456789abcdefghijklmnopq";

/** Opens a stage, plays `act` on it, and closes it again, looking for secrets in everything that was logged and thrown. */
export async function onStage<Double extends NotifierDouble>(
  under: NotifierUnderTest<Double>,
  act: (stage: Stage<Double>) => Promise<void>,
  overrides: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const clock = createFakeClock();
  const { double, record: fitting } = await under.open(clock);
  const record = { ...fitting, ...overrides };
  const shown: string[] = [];
  const notifier = under.definition.create(under.definition.options.parse(record), {
    clock,
    logger: collecting(shown),
    newId: randomId,
    scope: { share: <Value extends Closable>(_key: string, make: () => Value) => make() },
    publicUrl: "https://mesh.example.com",
    links: { keep: ({ ring }) => `${LINK_CODE}${ring.ask.length}` },
    network: double.server.network,
  });
  const never = new AbortController().signal;
  const purposed = (purpose: RequestPurpose) =>
    double.server.requests.filter((request) => double.purposeOf(request) === purpose).length;

  const stage: Stage<Double> = {
    clock,
    double,
    notifier,
    request: (options) => aRequest(clock, options),
    ring: ({ signal = never, ...options } = {}) =>
      notifier.ring(aRequest(clock, options), new Secret(under.tokens.valid), signal),
    async failure(ringing) {
      const error = await ringing.then(
        () => expect.fail("it did not fail"),
        (thrown: unknown) => thrown,
      );
      shown.push(inspect(error, { depth: 8, showHidden: true }));
      if (!(error instanceof RingError)) throw error;
      return error;
    },
    answerNext: (purpose, reply) => double.server.answerNext(reply, (request) => double.purposeOf(request) === purpose),
    count: purposed,
    async next(purpose, before) {
      while (purposed(purpose) <= before) await double.server.received(double.server.requests.length + 1);
    },
  };
  try {
    await act(stage);
  } finally {
    await notifier.close();
    await double.close();
  }
  expect(clock.pendingTimers, "timers that nobody disarmed").toBe(0);
  expectNoSecrets(shown.join("\n"), secretsOf(under, record, double));
}

function aRequest(clock: FakeClock, options: RingOptions = {}): RingRequest {
  const { approval = "ask", ttlMs = 42_500, joinTokenLength = 100 } = options;
  const iat = Math.floor(clock.nowMs() / 1000);
  const ring: Ring = {
    v: 1,
    ask: ASK_ID,
    device: "phone-7",
    approval,
    mesh: 'Zoë\'s "mesh" 🌿',
    iat,
    exp: iat + Math.ceil(ttlMs / 1000),
    join: {
      provider: "leafmesh",
      url: "wss://mesh.example.com/v1/connect",
      room: "room-1",
      token: "j".repeat(joinTokenLength),
    },
    kid: "key-1",
    sig: "s".repeat(86),
  };
  return { ring, body: JSON.stringify(ring), collapseKey: ASK_ID, ttlMs, approval };
}

function collecting(lines: string[]): Logger {
  const keep = (message: string, fields?: unknown): void => {
    lines.push(`${message} ${inspect(fields, { depth: 8, showHidden: true })}`);
  };
  return { debug: keep, info: keep, warn: keep, error: keep };
}

/** The push token, every field marked secret, and what went out as a credential. */
function secretsOf(
  under: Pick<NotifierUnderTest, "definition" | "tokens">,
  record: Readonly<Record<string, unknown>>,
  double: NotifierDouble,
): readonly string[] {
  const { valid, secretParts = [] } = under.tokens;
  const fields = secretFields(under)
    .map((field) => record[field])
    .filter((value) => typeof value === "string")
    // Of a key in many lines, the one that is most of a key.
    .map((text) => text.split("\n").reduce((longest, line) => (line.length > longest.length ? line : longest), ""));
  const sent = double.server.requests.map(({ headers }) => headers.authorization?.replace(/^\S+ /, "") ?? "");
  return [valid, LINK_CODE, ...secretParts, ...fields, ...sent].filter((secret) => secret.length >= 6);
}

/** Names of the record's fields that are marked secret. */
export function secretFields({ definition }: Pick<NotifierUnderTest, "definition">): readonly string[] {
  return fieldsOf(definition).flatMap(({ name, secret }) => (secret ? [name] : []));
}

interface Field {
  readonly name: string;
  readonly description?: string | undefined;
  readonly secret?: boolean | undefined;
}

export function fieldsOf({ options }: NotifierUnderTest["definition"]): readonly Field[] {
  const { properties = {} } = z.toJSONSchema(options, { io: "input", unrepresentable: "any" });
  return Object.entries(properties).map(([name, field]) => ({ name, ...(typeof field === "object" ? field : {}) }));
}

function expectNoSecrets(shown: string, secrets: readonly string[]): void {
  const found = secrets.filter((secret) => shown.includes(secret));
  expect(found.length, `secrets that were logged or thrown, in:\n${shown}`).toBe(0);
}
