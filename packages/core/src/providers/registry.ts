/**
 * The providers that a mesh may name, handed in by whoever assembles it. The core knows only what it needs of them;
 * the definitions of `@leafmesh/notifiers` and `@leafmesh/rooms` satisfy these shapes.
 */
import type * as z from "zod";

export interface ProviderIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/** What the loader, the schema and the docs need to know of a provider. */
export interface ProviderDescription {
  readonly provider: string;
  readonly title: string;
  readonly description: string;
  readonly options: z.ZodObject<z.ZodRawShape, z.core.$strict>;
  readonly packages?: readonly string[] | undefined;
}

export interface NotifierDescription extends ProviderDescription {
  readonly traits: { readonly silent: "yes" | "best-effort" | "never" };
  validate?(
    options: never,
    facts: { readonly publicUrl?: string | undefined; readonly roomProviders: readonly string[] },
  ): readonly ProviderIssue[];
}

export interface RoomDescription extends ProviderDescription {
  validate?(options: never, facts: { readonly publicUrl?: string | undefined }): readonly ProviderIssue[];
}

export interface ProviderRegistry {
  readonly notifiers: ReadonlyMap<string, NotifierDescription>;
  readonly rooms: ReadonlyMap<string, RoomDescription>;
}
