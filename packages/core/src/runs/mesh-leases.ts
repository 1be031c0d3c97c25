import type { Logger } from "@leafmesh/protocol";
import type { Mesh } from "../config/mesh.ts";
import type { Models } from "../models/contract.ts";

/** A mesh in use. */
export interface MeshLease {
  readonly mesh: Mesh;
  readonly models: Models;
  /** Call once, when the run is done with it. */
  release(): void;
}

interface Held {
  readonly mesh: Mesh;
  readonly models: Models;
  users: number;
}

/**
 * The mesh in force and those that runs still use: a reload does not change a run under way, and the models of a
 * replaced mesh are closed after its last run.
 */
export class MeshLeases {
  readonly #open: (mesh: Mesh) => Models;
  readonly #logger: Logger;
  #current: Held;

  constructor(mesh: Mesh, open: (mesh: Mesh) => Models, logger: Logger) {
    this.#open = open;
    this.#logger = logger;
    this.#current = { mesh, models: open(mesh), users: 0 };
  }

  get mesh(): Mesh {
    return this.#current.mesh;
  }

  acquire(): MeshLease {
    const held = this.#current;
    held.users++;
    return {
      mesh: held.mesh,
      models: held.models,
      release: () => {
        held.users--;
        if (held !== this.#current && held.users === 0) void this.#close(held);
      },
    };
  }

  swap(mesh: Mesh): void {
    const before = this.#current;
    this.#current = { mesh, models: this.#open(mesh), users: 0 };
    if (before.users === 0) void this.#close(before);
  }

  /** Closes the models in force; those of a replaced mesh are closed by their last run. */
  async close(): Promise<void> {
    await this.#close(this.#current);
  }

  async #close(held: Held): Promise<void> {
    try {
      await held.models.close();
    } catch (error) {
      this.#logger.warn("models did not close", { error });
    }
  }
}
