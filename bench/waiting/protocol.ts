/** What the processes of the measurement say to each other. */

/** Settings of a process that holds devices, as JSON in `DEVICES`. */
export interface DevicesOptions {
  /** The mesh, `http://…`. */
  readonly mesh: string;
  /** Devices `first` to `first + count - 1`. */
  readonly first: number;
  readonly count: number;
}

/** Signal that makes every device answer its task. */
export const ANSWER = "SIGUSR2";

/** Its lines of JSON: all devices can be rung; all hold their task; all rooms are closed. */
export type DevicesLine =
  | { readonly event: "ringable" }
  | { readonly event: "holding" }
  /** When the last room closed, in milliseconds since the epoch. */
  | { readonly event: "closed"; readonly at: number };

export function deviceId(index: number): string {
  return `phone-${index}`;
}

export function pushToken(index: number): string {
  return `token-of-phone-${index}`;
}
