import assert from "node:assert/strict";
import { test } from "node:test";
import { addNote, editNote, exportNotes, importNotes, LONGEST, cleanNotes, removeNote } from "./kept.js";

const NOTE = { id: "1", text: "odd", query: "?frame=3", place: "trajectory 1, frame 3" };

test("notes are added, changed, removed, exported and imported", () => {
  const notes = addNote([], NOTE);
  assert.equal(editNote(notes, "1", "very odd")[0].text, "very odd");
  assert.deepEqual(removeNote(notes, "1"), []);
  const file = exportNotes({ id: "p", title: "T" }, notes, { "2b": { 1: "coin" } });
  assert.deepEqual(importNotes([], file).names, { "2b": { 1: "coin" } });
  assert.deepEqual(importNotes([], file).notes, [NOTE]);
  assert.deepEqual(
    importNotes(
      [
        { ...NOTE, text: "old" },
        { ...NOTE, id: "2" },
      ],
      file,
    ).notes,
    [{ ...NOTE, id: "2" }, NOTE],
  );
});

test("files that hold no notes are refused, and links out of the page are passed over", () => {
  assert.throws(() => importNotes([], "nonsense"), /not JSON/);
  assert.throws(() => importNotes([], "{}"), /does not contain notes/);
  const file = JSON.stringify({
    format: "rl-clarity-notes",
    notes: [{ ...NOTE, query: "javascript:alert(1)" }, { text: 3 }],
  });
  assert.deepEqual(importNotes([], file).notes, []);
});

test("each note has an id of its own, whatever a file holds", () => {
  const list = [NOTE, { ...NOTE, text: "b" }, { ...NOTE, id: 7 }, { ...NOTE, id: undefined, place: {} }, null, 3, []];
  const mended = cleanNotes(list);
  assert.deepEqual(
    mended.map(({ id }) => id),
    [NOTE.id, "note-2", "note-3"],
  );
  assert.equal(mended[0].text, "b");
  assert.equal(mended[2].place, "");
  assert.deepEqual(cleanNotes({ length: 3 }), []);
  assert.throws(() => importNotes([], " ".repeat(LONGEST + 1)), /too large/);
});
