/** What a provider hands to the conformance suite. */
import type { CheckResult, NotifierDefinition, RingErrorKind } from "@leafmesh/notifiers/contract";
import type { Clock } from "@leafmesh/protocol";
import type { VendorReply } from "../../notifiers/replies.ts";
import type { VendorRequest, VendorServer } from "../../notifiers/vendor-server.ts";

/** A ring as the device would have it, taken out of a request that the double has verified as the vendor does. */
export interface ReceivedRing {
  /** What the app gets: the ring as compact JSON; with the trait `link` the text of the message. */
  readonly body: string;
  /** The push token that was rung, in clear. */
  readonly to: string;
  /** Whether the person sees something. */
  readonly isShown: boolean;
  /** Seconds until the vendor drops it, counted from now; `undefined` when it was not said. */
  readonly ttlSeconds?: number | undefined;
  readonly collapseKey?: string | undefined;
}

/** What a request is for: rings are counted, credentials are cached, checks must reach nobody. */
export type RequestPurpose = "ring" | "credential" | "check";

/** A played vendor. It refuses what the vendor refuses, so that a ring with a flaw fails the case that sent it. */
export interface NotifierDouble {
  readonly server: VendorServer;
  /** Rings that it took, in their order. */
  readonly rings: readonly ReceivedRing[];
  purposeOf(request: VendorRequest): RequestPurpose;
  close(): Promise<void>;
}

/** One row of the vendor's documentation: what it answers to a ring, and what that means. */
export interface DocumentedAnswer {
  readonly name: string;
  /** A function is given the push token, for vendors that quote it in their answers. */
  readonly reply: VendorReply | ((pushToken: string) => VendorReply);
  readonly expect:
    | { readonly receipt: string | undefined }
    | { readonly kind: RingErrorKind; readonly code?: string | undefined; readonly message?: RegExp | undefined };
  /** Requests for a ring that it takes; 2 where a refused access token is replaced and tried once more. Default 1. */
  readonly requests?: number | undefined;
}

/** One row of what a connection test can find. */
export interface DocumentedCheck<Double extends NotifierDouble> {
  readonly name: string;
  /** Makes the double answer so, usually with `double.server.answerNext`. */
  readonly arrange?: ((double: Double) => void) | undefined;
  /** Fields of the record that differ. */
  readonly record?: Readonly<Record<string, unknown>> | undefined;
  readonly expect: CheckResult["status"];
  readonly reason?: RegExp | undefined;
}

export interface NotifierUnderTest<Double extends NotifierDouble = NotifierDouble> {
  readonly definition: NotifierDefinition;
  /** A double, and the fields of a connection record that fit it, as an operator writes them. */
  open(clock: Clock): Promise<{ readonly double: Double; readonly record: Readonly<Record<string, unknown>> }>;
  readonly tokens: {
    readonly valid: string;
    /** Of shapes that are not this provider's. */
    readonly wrong: readonly string[];
    /** Parts of the valid one that must not show up anywhere either; the whole one never may. */
    readonly secretParts?: readonly string[] | undefined;
  };
  /** Whether a person sees something, for each kind of ring. */
  readonly shows: { readonly ask: boolean; readonly silent: boolean };
  /** Seconds that the vendor is told for this time left, where it is not that time rounded up. */
  readonly ttlSeconds?: ((ttlMs: number) => number) | undefined;
  /** What the vendor is told as collapse key, where it is not the ask's own. */
  readonly collapseKey?: ((key: string) => string) | undefined;
  /** An access token or signed JWT that is made and kept; left out where every request carries the key itself. */
  readonly credential?:
    | {
        /** How long the vendor takes one. */
        readonly lifetimeMs: number;
        /** How many were made; default: different `authorization` headers of rings. */
        readonly made?: ((double: Double) => number) | undefined;
      }
    | undefined;
  /** False where a second ring would be a second message, as with texts: nothing that may have rung is repeated. Default true. */
  readonly repeatsAreHarmless?: boolean | undefined;
  /** True where nobody can be asked about a credential without ringing: no check is ever `active`. Default false. */
  readonly nobodyToAsk?: boolean | undefined;
  readonly answers: readonly DocumentedAnswer[];
  readonly checks: readonly DocumentedCheck<Double>[];
}
