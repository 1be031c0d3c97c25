import type { Backend } from "@leafmesh/core/storage";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { commitCases } from "./backend/commit-cases.ts";
import { eventCases } from "./backend/event-cases.ts";
import { lastingCases } from "./backend/lasting-cases.ts";
import { outsideCallCases } from "./backend/outside-call-cases.ts";
import { presenceCases } from "./backend/presence-cases.ts";
import { propertyCases } from "./backend/property-cases.ts";
import { queueCases } from "./backend/queue-cases.ts";
import { readCases } from "./backend/read-cases.ts";

/** A store of its own for one test. */
export interface BackendUnderTest {
  /** Empty, and migrated. */
  readonly backend: Backend;
  /** Closes the backend and opens the same store again, migrated. */
  reopen(): Promise<Backend>;
  /** Closes what is open and removes the store. */
  dispose(): Promise<void>;
}

/**
 * The conformance suite of storage backends: everything that the contract promises, as vitest tests. `open` is called
 * for each test. `lasting: false` leaves out what a store that dies when it is closed cannot do.
 */
export function testBackend(
  name: string,
  open: () => Promise<BackendUnderTest>,
  { lasting = true }: { readonly lasting?: boolean } = {},
): void {
  describe(`backend: ${name}`, () => {
    let store: BackendUnderTest;
    const backend = () => store.backend;

    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.dispose());

    commitCases(backend);
    eventCases(backend);
    readCases(backend);
    outsideCallCases(backend);
    presenceCases(backend, lasting ? () => store.reopen() : undefined);
    queueCases(backend);
    propertyCases(open);
    if (lasting) lastingCases(backend, () => store.reopen());

    it("says that a write would succeed", async () => {
      await expect(backend().probe()).resolves.toBeUndefined();
    });

    it("refuses to be used once it is closed", async () => {
      await backend().close();
      await backend().close();
      await expect(backend().commit([])).rejects.toMatchObject({ name: "StorageError", code: "unavailable" });
      await expect(backend().session("s")).rejects.toMatchObject({ name: "StorageError", code: "unavailable" });
      await expect(backend().probe()).rejects.toMatchObject({ name: "StorageError", code: "unavailable" });
    });
  });
}
