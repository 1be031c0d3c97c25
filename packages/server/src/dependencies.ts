/** What the API stands on, handed in by whoever assembles the mesh. */
import type { Backend, Engine, Mesh } from "@leafmesh/core";
import type { Uploads } from "@leafmesh/core/uploads";
import type { AskView, Clock, Logger, MeshKey, RoomCallback } from "@leafmesh/protocol";
import type { RoomCallbackAnswer } from "./routes/room-callbacks.ts";

/** Reading asks needs the store alone; cancelling one needs the process that drives it. */
export interface AskControl {
  list(query: { sessionId?: string; open?: boolean; limit: number }): Promise<readonly AskView[]>;
  get(askId: string): Promise<AskView | undefined>;
  cancel(askId: string): Promise<"cancelled" | "already_settled" | "unknown">;
}

/** What a link of a text message leads to. `unknown`: to nothing that this mesh has, or not any more. */
export type LinkState = "open" | "used" | "over" | "unknown";

/** Rings that wait for the person who was texted a link, in whichever process of the mesh. */
export interface LinkControl {
  /** Changes nothing. `ask` is the ask's id. */
  look(code: string): Promise<{ readonly state: LinkState; readonly ask?: string | undefined }>;
  /** Gives the ring out, once. `ring` is its compact JSON. */
  open(
    code: string,
  ): Promise<
    | { readonly state: "open"; readonly ask: string; readonly ring: string; readonly leftMs: number }
    | { readonly state: Exclude<LinkState, "open"> }
  >;
}

/** Rooms of this process whose devices ask the mesh to vouch for them. */
export interface RoomCallbackControl {
  /** `undefined`: no such room, or not any more. */
  answer(id: string, token: string | undefined, callback: RoomCallback): RoomCallbackAnswer | undefined;
}

export interface ApiDependencies {
  /** The mesh in force; changes when mesh.yaml is reloaded. */
  mesh(): Mesh;
  readonly engine: Engine;
  readonly backend: Backend;
  readonly asks: AskControl;
  readonly uploads: Uploads;
  readonly links: LinkControl;
  readonly roomCallbacks: RoomCallbackControl;
  /** The program of the page behind such a link: an ES module without imports. */
  joinPageScript(): Promise<string>;
  /** Keys by which devices recognise this mesh's rings. */
  readonly meshKeys: readonly MeshKey[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** False before the start is complete and once the mesh is stopping. */
  isReady(): boolean;
}
