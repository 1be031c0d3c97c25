/**
 * {@link examplePush} with one flaw each, as adapters have them in earnest. Those that wait for ever are not here: what
 * finds them is the time limit of the test.
 */
import { Secret } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type Notifier,
  type NotifierDefinition,
  type ProviderDependencies,
  RingError,
  type RingRequest,
} from "../src/contract.ts";
import { examplePush } from "./example-push.ts";

interface Flaw {
  readonly flaw: string;
  readonly definition: NotifierDefinition;
  /** Name of the case that must find it. */
  readonly foundBy: RegExp;
}

type Wrapped = (inner: Notifier, dependencies: ProviderDependencies) => Partial<Notifier>;

function flawed(wrap: Wrapped, more: Partial<NotifierDefinition> = {}): NotifierDefinition {
  return {
    ...examplePush,
    ...more,
    create(options, dependencies) {
      const inner = examplePush.create(options, dependencies);
      const base: Notifier = {
        ring: (request, to, signal) => inner.ring(request, to, signal),
        check: (signal) => inner.check(signal),
        close: () => inner.close(),
      };
      return { ...base, ...wrap(inner, dependencies) };
    },
  };
}

const changing = (change: (request: RingRequest) => RingRequest): NotifierDefinition =>
  flawed((inner) => ({ ring: (request, to, signal) => inner.ring(change(request), to, signal) }));

/** Calls that fail as `change` has it. */
const failingWith = (change: (error: RingError, to: Secret) => unknown): NotifierDefinition =>
  flawed((inner) => ({
    ring: (request, to, signal) =>
      inner.ring(request, to, signal).catch((error: unknown) => {
        throw error instanceof RingError ? change(error, to) : error;
      }),
  }));

export const flaws: readonly Flaw[] = [
  {
    flaw: "changes the ring",
    definition: changing((ring) => ({ ...ring, body: `${ring.body} ` })),
    foundBy: /exactly the ring: ask/,
  },
  {
    flaw: "shows a silent ring",
    definition: changing((ring) => ({ ...ring, approval: "ask" })),
    foundBy: /exactly the ring: silent/,
  },
  {
    flaw: "hides what it asks",
    definition: changing((ring) => ({ ...ring, approval: "silent" })),
    foundBy: /exactly the ring: ask/,
  },
  {
    flaw: "keeps a ring for ever",
    definition: changing((ring) => ({ ...ring, ttlMs: 86_400_000 })),
    foundBy: /drop a ring/,
  },
  {
    flaw: "has a collapse key of its own",
    definition: changing((ring) => ({ ...ring, collapseKey: "same" })),
    foundBy: /drop a ring/,
  },
  {
    flaw: "sends what is too big",
    definition: changing((ring) => ({ ...ring, body: ring.body.slice(0, 1_000) })),
    foundBy: /does not fit/,
  },
  {
    flaw: "repeats a ring by itself",
    definition: flawed((inner) => ({
      ring: (request, to, signal) => inner.ring(request, to, signal).catch(() => inner.ring(request, to, signal)),
    })),
    foundBy: /understands: overload/,
  },
  {
    flaw: "calls every refusal a dead token",
    definition: failingWith(({ message }) => new RingError("dead_token", message)),
    foundBy: /understands: a rate/,
  },
  {
    flaw: "throws what is no RingError",
    definition: failingWith(({ message }) => new TypeError(message)),
    foundBy: /understands: a bad field/,
  },
  {
    flaw: "forgets when to come back",
    definition: failingWith(({ kind, message }) => new RingError(kind, message)),
    foundBy: /Retry-After: 3/,
  },
  {
    flaw: "prints the push token",
    definition: failingWith(({ kind, code }, to) => new RingError(kind, `${to.reveal()} is not known`, { code })),
    foundBy: /dead token, quoted/,
  },
  {
    flaw: "logs its key",
    definition: {
      ...examplePush,
      create(options, dependencies) {
        const { app_key: key } = options as { readonly app_key: unknown };
        if (key instanceof Secret) dependencies.logger.debug("made", { key: key.reveal() });
        return examplePush.create(options, dependencies);
      },
    },
    foundBy: /opens nothing/,
  },
  {
    flaw: "leaves its connections open",
    definition: flawed(() => ({ close: async () => {} })),
    foundBy: /rings nobody after that/,
  },
  {
    flaw: "takes any token",
    definition: { ...examplePush, pushToken: z.string() },
    foundBy: /its own push tokens/,
  },
  {
    flaw: "takes fields that it does not know",
    definition: { ...examplePush, options: z.looseObject(examplePush.options.shape) as never },
    foundBy: /strict about its fields/,
  },
  {
    flaw: "rings somebody to test its key",
    definition: flawed((inner, { clock }) => ({
      async check(signal) {
        await inner.ring(probe(clock.nowMs()), new Secret("dev-0000000000000000"), signal);
        return { status: "active" };
      },
    })),
    foundBy: /a key that works/,
  },
  {
    flaw: "calls every key active",
    definition: flawed(() => ({ check: async () => ({ status: "active" }) })),
    foundBy: /another key/,
  },
  {
    flaw: "makes an access token for each ring",
    definition: flawed((inner, dependencies) => ({
      async ring(request, to, signal) {
        const options = { app_id: "my-app", app_key: new Secret("the-key-of-my-app") };
        const once = examplePush.create(options, dependencies);
        return once.ring(request, to, signal).finally(() => Promise.all([once.close(), inner.check(signal)]));
      },
    })),
    foundBy: /one credential for all/,
  },
];

function probe(nowMs: number): RingRequest {
  return {
    body: String(nowMs),
    collapseKey: "probe",
    ttlMs: 1_000,
    approval: "silent",
    ring: {} as RingRequest["ring"],
  };
}
