// Numbers that the page carries as text: base64 of deflated bytes of seven bits each, the lowest first.

export async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Columns of `cnt` numbers each, one behind the other.
export function unpackColumns(bytes, cnt, columnCnt) {
  const columns = [];
  let at = 0;
  for (let column = 0; column < columnCnt; column++) {
    const numbers = new Float64Array(cnt);
    for (let n = 0; n < cnt; n++) {
      let value = 0, factor = 1, byte;
      do {
        byte = bytes[at++];
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte > 127);
      numbers[n] = value;
    }
    columns.push(numbers);
  }
  return columns;
}

// A lane of the timeline: begins, ends, names and how full each stretch is, from 0 to 1. Of stretches that overlap each
// moment belongs to the first, so what is drawn is a union; `lengths` has what the file says.
export function unpackLane(bytes, packed) {
  const [gaps, lengths, names, levels] = unpackColumns(bytes, packed.cnt, packed.has_levels ? 4 : 3);
  const starts = new Float64Array(packed.cnt), ends = new Float64Array(packed.cnt), begins = new Float64Array(packed.cnt);
  let at = -(packed.lead ?? 0), covered = -Infinity; // what begins before a window begins before 0
  for (let n = 0; n < packed.cnt; n++) {
    at += gaps[n];
    begins[n] = at;
    ends[n] = Math.max(at + lengths[n], covered);
    starts[n] = Math.min(Math.max(at, covered), ends[n]);
    covered = ends[n];
  }
  return {starts, ends, begins, lengths, names, levels: levels ? levels.map((level) => level / 255) : null};
}

// A line of steps: places, and the value from each on.
export function unpackSteps(bytes, cnt) {
  const [places, values] = unpackColumns(bytes, cnt, 2);
  for (let n = 0; n < cnt; n++) {
    const change = values[n] % 2 ? -(values[n] + 1) / 2 : values[n] / 2;
    places[n] += n ? places[n - 1] : 0;
    values[n] = change + (n ? values[n - 1] : 0);
  }
  return {places, values};
}

// Blocks of memory in the order in which they are stacked: begins, ends (Infinity: never freed), sizes, and what each is.
export function unpackBlocks(bytes, cnt) {
  const [starts, ends, sizes, abouts] = unpackColumns(bytes, cnt, 4);
  for (let n = 0; n < cnt; n++) {
    starts[n] += n ? starts[n - 1] : 0;
    ends[n] = ends[n] ? starts[n] + ends[n] - 1 : Infinity;
  }
  return {starts, ends, sizes, abouts};
}
