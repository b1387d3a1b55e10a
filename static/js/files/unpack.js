// Unpacking an archive where it lies: how far it is, an end to it, and the way back.
import { button, count, note, number, parent, say, size, text } from "./dom.js";
import { lines, post, postJson } from "./gate.js";
import * as listing from "./listing.js";
import { work } from "./works.js";

// Only writing says how much there is.
const shows = (mine, name) => ({ step, files, bytes, of = 0 }) => {
  const writing = step === "writing";
  mine.say(text(writing ? "extract_writing" : "extract_reading", {
    name, files: count("files", files), size: size(bytes), all: size(of),
  }));
  if (writing && of) mine.far(bytes, of);
};

// When it is cancelled nothing of it is left.
async function unpacked(entry) {
  const mine = work("package", text("extract_bar"));
  mine.say(text("extract_begins", { name: entry.name }));
  const tell = shows(mine, entry.name);
  try {
    return (await lines(post("extract", { path: entry.path }, { signal: mine.signal }), ({ progress }) => tell(progress))).done;
  } catch (error) {
    if (error.name === "AbortError") say(text("extract_ended", { name: entry.name }));
    throw error;
  } finally {
    mine.over();
  }
}

export async function extract(entry, { refresh, guard }) {
  const done = await unpacked(entry);
  await refresh();
  if (parent(done.path) === listing.state.path) listing.choose([done.path]);
  const said = [
    text("extracted", { name: done.name, files: count("files", done.files), size: size(done.bytes) }),
    done.names && text(`names_${done.names}`),
    done.skipped && text("extract_left", { n: number(done.skipped) }),
  ];
  note("undo", "success", said.filter(Boolean).join(" "), button(text("undo"), guard(async () => {
    await postJson("delete", { paths: [done.path] });
    note("undo");
    await refresh();
  })));
}
