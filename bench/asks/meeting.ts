/** What the measured processes agree on. */
export const DEVICE = "phone-7";
export const PUSH_TOKEN = "secret-of-phone-7";
export const ROOM_KEY = "key-of-the-mesh-for-its-rooms";
/** What both kinds of device answer. */
export const ANSWER = { level: 71, charging: false };

/** A bare room: whoever connects to one path talks to whoever connected to the other. */
export const rawPath = (room: string, seat: "mesh" | "device"): string => `/raw/${room}/${seat}`;
export const RAW_HELLO = JSON.stringify({ type: "hello", token: "none" });
/** The bare device waits here to be rung. */
export const RAW_RING_PATH = "/raw/ring";

/** Limits that a measurement does not run into: one conversation sends thousands of frames a second. */
export const NO_RATE = { rate: 1_000_000, burst: 1_000_000 };

/** Receipts are cumulative: a client that gets many frames need not answer each. */
export const ACK_EVERY = 8;
