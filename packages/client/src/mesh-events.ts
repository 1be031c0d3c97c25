/** The frames of a conversation's stream, as a program reads them. */
import {
  type SessionEvent,
  type SessionEventType,
  sessionEventPayloads,
  type TransientEvent,
  type TransientEventType,
  transientPayloads,
} from "@leafmesh/protocol";
import type { EventSourceMessage } from "eventsource-parser";
import * as z from "zod";
import { parseJson } from "./parse-json.ts";

/** A stored event. `seq` is its number within the conversation, `ts` its time in seconds since the epoch. */
export type StoredMeshEvent = SessionEvent & { readonly seq: number; readonly ts: number };
/** A frame that is not stored and therefore never comes again. */
export type TransientMeshEvent = TransientEvent & { readonly seq?: undefined; readonly ts: number };
/** What a newer mesh says and this library does not know. */
export interface UnknownMeshEvent {
  readonly type: "unknown";
  /** Its type on the wire. */
  readonly name: string;
  readonly payload: unknown;
  readonly seq?: number | undefined;
  readonly ts: number;
}
export type MeshEvent = StoredMeshEvent | TransientMeshEvent | UnknownMeshEvent;

const frameSchema = z.object({ type: z.string(), payload: z.unknown(), ts: z.number() });

/** `undefined` for what is no frame of a conversation. */
export function parseMeshEvent(message: EventSourceMessage): MeshEvent | undefined {
  const frame = frameSchema.safeParse(parseJson(message.data)).data;
  if (!frame) return undefined;
  const { type, payload, ts } = frame;
  const seq = parseSeq(message.id);
  if (seq !== undefined && isStoredType(type)) {
    const read = sessionEventPayloads[type].loose().safeParse(payload);
    // Schemas are looked up by the very type, which the compiler cannot follow through the union.
    if (read.success) return { type, payload: read.data, seq, ts } as StoredMeshEvent;
  }
  if (seq === undefined && isTransientType(type)) {
    const read = transientPayloads[type].loose().safeParse(payload);
    if (read.success) return { type, payload: read.data, ts } as TransientMeshEvent;
  }
  return { type: "unknown", name: type, payload, ts, ...(seq === undefined ? {} : { seq }) };
}

/** @internal The number in an SSE `id:`. */
export function parseSeq(id: string | undefined): number | undefined {
  return id !== undefined && /^\d{1,15}$/.test(id) ? Number(id) : undefined;
}

function isStoredType(type: string): type is SessionEventType {
  return Object.hasOwn(sessionEventPayloads, type);
}

function isTransientType(type: string): type is TransientEventType {
  return Object.hasOwn(transientPayloads, type);
}
