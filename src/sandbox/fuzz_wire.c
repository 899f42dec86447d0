/*
 * Fuzzes the request parser: well-formed requests, damaged at random, each in a block of exactly its
 * size, so that AddressSanitizer detects a read of one byte too many. Accepted requests are read in
 * full, as a slot would. Usage: fuzz_wire SEED ROUNDS. LLVMFuzzerTestOneInput is the same target for
 * clang's libFuzzer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static volatile size_t sink;

static void walk(const struct request *request) {
  for (uint32_t i = 0; i < request->argument_count; i++) sink += strlen(request->arguments[i]);
  for (uint32_t i = 0; i < request->variable_count; i++) sink += strlen(request->variables[i]);
  for (uint32_t i = 0; i < request->save_path_count; i++) sink += strlen(request->save_paths[i]);
  for (uint32_t i = 0; i < request->load_count; i++)
    sink += strlen(request->loads[i].key) + strlen(request->loads[i].at);
  for (uint32_t i = 0; i < request->file_count; i++) {
    const struct wire_file *file = &request->files[i];
    if (!wire_is_inner_path(file->path) || strstr(file->path, "..//")) abort();
    for (uint32_t at = 0; at < file->length; at++) sink += file->bytes[at];
  }
  for (uint32_t i = 0; i < request->folder_count; i++)
    if (!wire_is_inner_path(request->folders[i])) abort();
  for (uint32_t i = 0; i < request->keep_pattern_count; i++)
    if (!wire_is_inner_path(request->keep_patterns[i])) abort();
  for (uint32_t at = 0; at < request->input_length; at++) sink += request->input[at];
  if (request->input_key) sink += strlen(request->input_key);
  if (request->keep_max_bytes > KEEP_BYTES_MAX || request->keep_max_files > KEEP_FILES_MAX) abort();
  if (request->arguments[request->argument_count] || request->variables[request->variable_count]) abort();
  if (!request->profile || request->arguments[0][0] != '/' || request->limits.files < 3) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static struct request request;
  const uint8_t *parts[2];
  size_t lengths[2];
  uint32_t id;
  if (!wire_parse(bytes, length, &request)) walk(&request);
  if (wire_split_pair(bytes, length, &id, parts, lengths))
    for (int i = 0; i < 2; i++)
      if (!wire_parse(parts[i], lengths[i], &request)) walk(&request);
  return 0;
}

#ifndef LIBFUZZER
static uint64_t state;

static uint32_t chance(uint32_t below) { /* xorshift: the same seed gives the same rounds */
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)((state >> 11) % below);
}

static size_t add_field(uint8_t *at, unsigned tag, const void *value, size_t length) {
  at[0] = (uint8_t)tag;
  put_u32(at + 1, (uint32_t)length);
  memcpy(at + 5, value, length);
  return 5 + length;
}

/* A valid request with random fields in random order. */
static size_t make_request(uint8_t *at) {
  static const char *const TEXTS[] = {"/bin/true", "A=b", "x", "/box", "python", "dir/file.txt", "", "..", "a//b"};
  enum { TAGS = FIELD_PAIR };
  static const char *const FITTING[TAGS + 2] = {"", "-x", "A=b", "/box", "dir/file.txt", "", "", "base", "key.1", "key", "out/bin",
                                               "", "acc-1", "input.1", "feedback", "", "out/*.png", "", ""};
  uint8_t limits[8 * LIMIT_COUNT], value[400];
  size_t length = 0;
  for (int i = 0; i < LIMIT_COUNT; i++) put_u64(limits + 8 * i, chance(8) ? 10 + chance(4000) : ((uint64_t)1 << chance(64)));
  length += add_field(at + length, FIELD_ARGUMENT, "/bin/true", 10);
  length += add_field(at + length, FIELD_PROFILE, "base", 5);
  length += add_field(at + length, FIELD_LIMITS, limits, sizeof limits);
  for (uint32_t fields = chance(12); fields; fields--) {
    unsigned tag = 1 + chance(TAGS + 1);
    const char *text = chance(5) ? FITTING[tag] : TEXTS[chance(9)];
    size_t used = tag == FIELD_FILE ? 4 : tag == FIELD_SAVE ? 12 : 0;
    memset(value, (int)chance(256), sizeof value);
    memcpy(value + used, text, strlen(text) + 1);
    used += strlen(text) + 1;
    const char *mount = chance(3) ? "/load" : "/load2/in";
    if (tag == FIELD_LOAD) memcpy(value + used, mount, strlen(mount) + 1), used += strlen(mount) + 1;
    if (tag == FIELD_KEEP && chance(4)) put_u64(value, chance(1 << 20)), put_u32(value + 8, chance(100)), put_u64(value + 12, chance(8)), put_u32(value + 20, chance(2)), used = 24;
    if (tag == FIELD_PAIR && chance(4)) put_u32(value, chance(1 << 20)), put_u32(value + 4, chance(2)), used = 8;
    if (tag == FIELD_FILE || tag == FIELD_STDIN) used += chance(100);
    if (tag == FIELD_STREAM && chance(2)) used = 0;
    length += add_field(at + length, tag, value, used);
  }
  return length;
}

static size_t damage(uint8_t *bytes, size_t length) {
  for (uint32_t damages = chance(6); damages && length; damages--) {
    size_t at = chance((uint32_t)length);
    switch (chance(6)) {
      case 0: bytes[at] ^= (uint8_t)(1 << chance(8)); break;
      case 1: bytes[at] = (uint8_t)chance(256); break;
      case 2: length = at; break;
      case 3: if (length - at >= 4) put_u32(bytes + at, (uint32_t)0 - chance(64)); break;
      case 4: if (length - at >= 4) put_u32(bytes + at, chance((uint32_t)length * 2)); break;
      case 5: memmove(bytes, bytes + at, length - at), length -= at; break;
    }
  }
  return length;
}

int main(int count, char **arguments) {
  static uint8_t bytes[16384];
  unsigned long seed = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
  unsigned long rounds = count > 2 ? strtoul(arguments[2], NULL, 10) : 200000, accepted = 0;
  static struct request request;
  state = 0x9e3779b97f4a7c15u ^ seed;
  for (unsigned long i = 0; i < rounds; i++) {
    size_t length = damage(bytes, make_request(bytes));
    uint8_t *exact = malloc(length ? length : 1);
    memcpy(exact, bytes, length);
    LLVMFuzzerTestOneInput(exact, length);
    accepted += !wire_parse(exact, length, &request);
    free(exact);
  }
  printf("fuzz_wire: seed %lu, %lu requests, %lu accepted, no error\n", seed, rounds, accepted);
  return accepted ? 0 : 1; /* if no request is accepted, the fuzzer tests little */
}
#endif
