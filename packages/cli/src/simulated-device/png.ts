import { crc32, deflateSync } from "node:zlib";

/**
 * A small picture as PNG (https://www.w3.org/TR/png-3/): a colour gradient, different for each `seed`, so that two photos
 * can be told apart.
 */
export function gradientPng(size: number, seed: number): Uint8Array<ArrayBuffer> {
  const rows = Buffer.alloc(size * (1 + size * 3));
  for (let y = 0; y < size; y++) {
    const row = y * (1 + size * 3);
    for (let x = 0; x < size; x++) {
      const pixel = row + 1 + x * 3;
      rows[pixel] = Math.round((x / size) * 255);
      rows[pixel + 1] = Math.round((y / size) * 255);
      rows[pixel + 2] = seed % 256;
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size, 0);
  header.writeUInt32BE(size, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const file = Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
  return new Uint8Array(file);
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const framed = Buffer.alloc(typed.length + 8);
  framed.writeUInt32BE(data.length, 0);
  typed.copy(framed, 4);
  framed.writeUInt32BE(crc32(typed), typed.length + 4);
  return framed;
}
