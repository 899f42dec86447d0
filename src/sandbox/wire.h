/*
 * The protocol between a worker and its launcher, over one stream socket.
 *
 * A frame is: length (u32, of the bytes after it), type (u8), request id (u32), payload. All numbers
 * are little endian. The worker chooses the ids; an answer carries the id of its request.
 *
 * The payload of FRAME_RUN is a list of fields: tag (u8), length (u32), value. A text ends with a NUL,
 * which the length counts, and contains no other NUL. So the parser can point into the frame and copies
 * nothing. It trusts nothing either: the worker is ours, but the launcher rejects the orders of a broken
 * one instead of obeying them. `fuzz_wire.c` tests the parser.
 *
 * FRAME_PAIR orders two runs at the same time, each of which gets the other's output as its input. Its
 * payload is the id of the second run (u32), the length of the first run's fields (u32), these fields,
 * and those of the second run. Each run has an answer of its own.
 *
 * A report ends with what the run left, as records: kind (u8), two lengths (u32), and as many bytes:
 *   LEFT_FILE       a kept file: its path, its bytes
 *   LEFT_REFUSED    why a file was not kept: a text, nothing
 *   LEFT_OUTPUT     of a transcript: what the program wrote, nothing
 *   LEFT_INPUT      of a transcript: what its partner wrote, nothing
 */
#ifndef RUNLEDGER_WIRE_H
#define RUNLEDGER_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  FRAME_HEAD = 9,              /* length, type, id */
  FRAME_MAX = 16 * 1024 * 1024, /* a request carries source, input and class files, never artefacts */
  OUTPUT_MAX = 64 * 1024 * 1024, /* the highest limit of each output */
  END_MAX = 64 * 1024 /* so many of the last bytes of standard error are reported, if it has more than are kept */
};

/* Where single files are mounted. */
#define FILES_FOLDER "/load2"

enum frame_type {
  FRAME_RUN = 1,
  FRAME_CANCEL = 2,
  FRAME_INPUT = 3,    /* to an open box: bytes; an empty frame: end of input */
  FRAME_DEADLINE = 4, /* u64: CLOCK_MONOTONIC in microseconds; 0: none */
  FRAME_METER = 5,    /* asks for the usage of an open box */
  FRAME_PAIR = 6,
  FRAME_PEEK = 7, /* asks what a run has written so far: u64 u64 from, of standard output and error; u32 at most, together */
  FRAME_HELLO = 16,   /* JSON: the isolation found, the slots */
  FRAME_REPORT = 17,  /* how the program ended */
  FRAME_FAULT = 18,   /* text: why the launcher could not run it; says nothing about the program */
  FRAME_OUTPUT = 19,  /* from an open box: 1 or 2, then bytes */
  FRAME_METERED = 20, /* u64 cpu_us, u64 memory_bytes, u64 memory_peak_bytes */
  FRAME_OPENED = 21,
  FRAME_PEEKED = 22, /* u32 length of standard output, its bytes, those of standard error; both are empty if it does not run */
};

enum field_tag {
  FIELD_ARGUMENT = 1,
  FIELD_ENVIRONMENT = 2, /* NAME=value */
  FIELD_DIRECTORY = 3,   /* working directory, absolute */
  FIELD_FILE = 4,        /* u32 mode, path, NUL, bytes */
  FIELD_STDIN = 5,
  FIELD_LIMITS = 6, /* u64s, in the order of struct limits */
  FIELD_PROFILE = 7,
  FIELD_LOAD = 8, /* key, NUL, mount point, NUL: an artefact, or a single file */
  FIELD_SAVE = 9, /* u64 bytes, u32 files, key, NUL */
  FIELD_SAVE_PATH = 10,
  FIELD_STREAM = 11, /* no value: a box that stays open */
  FIELD_ZYGOTE = 12, /* the account whose warm interpreter may be used */
  FIELD_INPUT_KEY = 13, /* a file of the store, which is standard input */
  FIELD_FOLDER = 14, /* path of an empty folder in the work directory */
  /* u64 bytes, u32 files: how much may be kept of the files that the run leaves; u32 count, u32 bytes: those that
   * match the first so many patterns are cut to so many bytes; u32: 1 if what a pattern names, and is no regular file, is
   * refused; else it counts as not there */
  FIELD_KEEP = 15,
  FIELD_KEEP_PATTERN = 16, /* which: a path in which each * stands for any characters but / */
  FIELD_PAIR = 17, /* a run of FRAME_PAIR. u32: how many bytes of the conversation to write down; u32: 1 for an interactor */
};

enum { MAX_ARGUMENTS = 128, MAX_VARIABLES = 64, MAX_FILES = 256, MAX_LOADS = 8, MAX_SAVE_PATHS = 16 };
enum { MAX_NAME = 128, MAX_PATH = 1024, MAX_FOLDERS = 16, MAX_KEEP_PATTERNS = 32, MAX_KEEP_DEPTH = 24 };
/* Ceilings. Records of as many files, with their paths, fit into OUTPUT_MAX. */
enum { KEEP_BYTES_MAX = 48 * 1024 * 1024, KEEP_FILES_MAX = 1024, TRANSCRIPT_MAX = 1024 * 1024 };

/* The payload of FRAME_PEEK. */
enum { PEEK_SIZE = 20 };

enum left_kind { LEFT_FILE = 1, LEFT_REFUSED = 2, LEFT_OUTPUT = 3, LEFT_INPUT = 4, LEFT_HEAD = 9 };

struct limits {
  uint64_t cpu_ms, wall_ms, memory_bytes, processes, stdout_bytes, stderr_bytes;
  uint64_t disk_bytes, inodes, files, stack_bytes;
};

enum { LIMIT_COUNT = sizeof(struct limits) / sizeof(uint64_t) };

struct wire_file {
  const char *path;
  const uint8_t *bytes;
  uint32_t mode, length;
};

struct wire_load {
  const char *key, *at;
};

struct request {
  const char *arguments[MAX_ARGUMENTS + 1];
  const char *variables[MAX_VARIABLES + 1];
  struct wire_file files[MAX_FILES];
  struct wire_load loads[MAX_LOADS];
  const char *save_paths[MAX_SAVE_PATHS];
  const char *folders[MAX_FOLDERS];
  const char *keep_patterns[MAX_KEEP_PATTERNS];
  uint32_t argument_count, variable_count, file_count, load_count, save_path_count, folder_count, keep_pattern_count;
  const char *directory, *profile, *save_key, *zygote, *input_key;
  uint64_t save_max_bytes, keep_max_bytes;
  uint32_t save_max_files, keep_max_files, keep_cut_patterns, keep_cut_bytes, transcript_bytes;
  const uint8_t *input;
  uint32_t input_length, single_loads; /* loads of single files */
  struct limits limits;
  bool has_limits, has_keep, keep_refuses, stream, pair;
  bool judges; /* the interactor of a pair: its standard output is only passed on */
};

/* NULL: `request` is valid and points into the payload. Otherwise: why the payload is rejected. */
const char *wire_parse(const uint8_t *payload, size_t length, struct request *request);

/* Whether the bytes at `payload` are two runs of a pair. They are not parsed. */
bool wire_split_pair(const uint8_t *payload, size_t length, uint32_t *second_id, const uint8_t *parts[2], size_t lengths[2]);

/* Whether a load's mount point is that of a single file: below FILES_FOLDER. */
bool wire_is_single(const char *at);

/* A path below a directory: no leading slash, no empty component, no "." and no "..". */
bool wire_is_inner_path(const char *path);
/* The name of an artefact, a profile or an account: letters, digits, dot, dash, underscore; no leading dot. */
bool wire_is_name(const char *name);

uint32_t get_u32(const uint8_t *at);
uint64_t get_u64(const uint8_t *at);
void put_u32(uint8_t *at, uint32_t number);
void put_u64(uint8_t *at, uint64_t number);
void put_head(uint8_t *at, uint32_t payload, enum frame_type type, uint32_t id);
#endif
