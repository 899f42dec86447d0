#include "wire.h"

#include <string.h>

/* The launcher's own ceiling for each limit, so that arithmetic on limits cannot overflow. */
static const uint64_t LIMIT_CEILINGS[LIMIT_COUNT] = {
    86400000,                                    /* CPU: a day in milliseconds */
    86400000,                                    /* wall clock: a day */
    (uint64_t)1 << 40, 4096, OUTPUT_MAX, OUTPUT_MAX, /* memory, processes, outputs */
    (uint64_t)1 << 40, 1 << 24, 1 << 16,         /* disk, inodes, descriptors */
    (uint64_t)1 << 40,                           /* stack */
};

typedef const char *parser(const uint8_t *value, uint32_t length, struct request *request);
static parser parse_argument, parse_variable, parse_directory, parse_file, parse_input, parse_limits;
static parser parse_profile, parse_load, parse_save, parse_save_path, parse_stream, parse_zygote, parse_input_key;
static parser parse_folder, parse_keep, parse_keep_pattern, parse_pair;
static const char *check_whole(const struct request *request);

static parser *const PARSERS[] = {
    [FIELD_ARGUMENT] = parse_argument, [FIELD_ENVIRONMENT] = parse_variable,
    [FIELD_DIRECTORY] = parse_directory, [FIELD_FILE] = parse_file,
    [FIELD_STDIN] = parse_input,       [FIELD_LIMITS] = parse_limits,
    [FIELD_PROFILE] = parse_profile,   [FIELD_LOAD] = parse_load,
    [FIELD_SAVE] = parse_save,         [FIELD_SAVE_PATH] = parse_save_path,
    [FIELD_STREAM] = parse_stream,     [FIELD_ZYGOTE] = parse_zygote,
    [FIELD_INPUT_KEY] = parse_input_key, [FIELD_FOLDER] = parse_folder,
    [FIELD_KEEP] = parse_keep,         [FIELD_KEEP_PATTERN] = parse_keep_pattern,
    [FIELD_PAIR] = parse_pair,
};

const char *wire_parse(const uint8_t *payload, size_t length, struct request *request) {
  memset(request, 0, sizeof *request);
  request->directory = "/box";
  for (size_t at = 0; at < length;) {
    if (length - at < 5) return "a field is truncated";
    uint8_t tag = payload[at];
    uint32_t size = get_u32(payload + at + 1);
    at += 5;
    if (size > length - at) return "a field is longer than its frame";
    if (tag >= sizeof PARSERS / sizeof PARSERS[0] || !PARSERS[tag]) return "a field is unknown";
    const char *wrong = PARSERS[tag](payload + at, size, request);
    if (wrong) return wrong;
    at += size;
  }
  return check_whole(request);
}

static const char *check_whole(const struct request *request) {
  if (!request->argument_count) return "there are no arguments, so nothing to run";
  if (request->arguments[0][0] != '/') return "the program's path is not absolute";
  if (!request->profile) return "there is no profile";
  if (!request->has_limits) return "there are no limits";
  if (request->save_path_count && !request->save_key) return "there are paths to save but no key";
  if (request->save_key && !request->save_path_count) return "there is a key to save under but there are no paths";
  if (request->save_key && request->stream) return "an open box cannot save anything";
  if (request->has_keep != (request->keep_pattern_count > 0)) return "a keep order and its patterns come together";
  if (request->has_keep && (request->save_key || request->stream)) return "a run that saves, or an open box, cannot keep files";
  if (request->pair && (request->stream || request->save_key)) return "a run of a pair is no open box, and saves nothing";
  if (request->transcript_bytes && request->has_keep) return "a run cannot keep files beside a transcript";
  if ((request->stream || request->pair) && (request->input_length || request->input_key))
    return "a run that gets its input from outside has input";
  if (request->input_length && request->input_key) return "there are two inputs";
  for (uint32_t i = 0; i < request->load_count; i++)
    if (request->single_loads && !strcmp(request->loads[i].at, FILES_FOLDER)) return "an artefact is mounted over single files";
  return NULL;
}

/* NULL unless the value ends with a NUL and contains no other. */
static const char *text_of(const uint8_t *value, uint32_t length) {
  if (length == 0 || value[length - 1] != 0) return NULL;
  return memchr(value, 0, length) == value + length - 1 ? (const char *)value : NULL;
}

/* The text at the start of a value. `taken`: its length with the NUL. */
static const char *leading_text(const uint8_t *value, uint32_t length, uint32_t *taken) {
  const uint8_t *end = length ? memchr(value, 0, length) : NULL;
  if (!end) return NULL;
  *taken = (uint32_t)(end - value) + 1;
  return (const char *)value;
}

static const char *parse_argument(const uint8_t *value, uint32_t length, struct request *request) {
  if (request->argument_count == MAX_ARGUMENTS) return "too many arguments";
  const char *text = text_of(value, length);
  if (!text) return "an argument is not NUL-terminated text";
  request->arguments[request->argument_count++] = text;
  return NULL;
}

static const char *parse_variable(const uint8_t *value, uint32_t length, struct request *request) {
  if (request->variable_count == MAX_VARIABLES) return "too many variables";
  const char *text = text_of(value, length);
  if (!text || text[0] == '=' || !strchr(text, '=')) return "a variable is not NAME=value";
  request->variables[request->variable_count++] = text;
  return NULL;
}

static const char *parse_directory(const uint8_t *value, uint32_t length, struct request *request) {
  const char *text = text_of(value, length);
  if (!text || text[0] != '/' || strlen(text) >= MAX_PATH) return "the working directory is not an absolute path";
  request->directory = text;
  return NULL;
}

static const char *parse_file(const uint8_t *value, uint32_t length, struct request *request) {
  uint32_t taken = 0;
  if (request->file_count == MAX_FILES) return "too many files";
  if (length < 5) return "a file is truncated";
  const char *path = leading_text(value + 4, length - 4, &taken);
  if (!path || !wire_is_inner_path(path)) return "a file's path does not lie inside the work directory";
  struct wire_file *file = &request->files[request->file_count++];
  file->path = path;
  file->mode = get_u32(value) & 0777;
  file->bytes = value + 4 + taken;
  file->length = length - 4 - taken;
  return NULL;
}

static const char *parse_input(const uint8_t *value, uint32_t length, struct request *request) {
  request->input = value;
  request->input_length = length;
  return NULL;
}

static const char *parse_limits(const uint8_t *value, uint32_t length, struct request *request) {
  uint64_t *limits = (uint64_t *)&request->limits;
  if (length != sizeof request->limits) return "the limits are not as many numbers as there are limits";
  for (unsigned i = 0; i < LIMIT_COUNT; i++) {
    limits[i] = get_u64(value + 8 * (size_t)i);
    if (limits[i] > LIMIT_CEILINGS[i]) return "a limit is above the launcher's ceiling";
  }
  const struct limits *given = &request->limits;
  if (!given->cpu_ms || !given->wall_ms || !given->memory_bytes || !given->processes || !given->disk_bytes ||
      !given->inodes || !given->stack_bytes || given->files < 3)
    return "a limit is zero, or there are too few descriptors for standard input, output and error";
  request->has_limits = true;
  return NULL;
}

static const char *parse_profile(const uint8_t *value, uint32_t length, struct request *request) {
  request->profile = text_of(value, length);
  return request->profile && wire_is_name(request->profile) ? NULL : "the profile is not a valid name";
}

/* A path below the work directory, which is created, or one of the root's empty directories. */
static bool is_load_target(const char *at) {
  if (!strncmp(at, "/box/", 5)) return wire_is_inner_path(at + 5);
  return !strcmp(at, "/load") || !strcmp(at, "/load2") || wire_is_single(at);
}

bool wire_is_single(const char *at) {
  const size_t folder = sizeof FILES_FOLDER - 1;
  return !strncmp(at, FILES_FOLDER, folder) && at[folder] == '/' && wire_is_name(at + folder + 1);
}

static const char *parse_load(const uint8_t *value, uint32_t length, struct request *request) {
  uint32_t taken = 0;
  if (request->load_count == MAX_LOADS) return "too many artefacts to load";
  const char *key = leading_text(value, length, &taken);
  if (!key || !wire_is_name(key)) return "an artefact's key is not a valid name";
  const char *at = text_of(value + taken, length - taken);
  if (!at || !is_load_target(at)) return "an artefact can be mounted only below /box, at /load or at /load2, and a file only in /load2";
  request->single_loads += wire_is_single(at);
  request->loads[request->load_count++] = (struct wire_load){key, at};
  return NULL;
}

static const char *parse_save(const uint8_t *value, uint32_t length, struct request *request) {
  if (length < 13) return "the save order is truncated";
  request->save_max_bytes = get_u64(value);
  request->save_max_files = get_u32(value + 8);
  request->save_key = text_of(value + 12, length - 12);
  return request->save_key && wire_is_name(request->save_key) ? NULL : "the key to save under is not a valid name";
}

static const char *parse_save_path(const uint8_t *value, uint32_t length, struct request *request) {
  const char *path = text_of(value, length);
  if (request->save_path_count == MAX_SAVE_PATHS) return "too many paths to save";
  if (!path || !wire_is_inner_path(path)) return "a path to save does not lie inside the work directory";
  request->save_paths[request->save_path_count++] = path;
  return NULL;
}

static const char *parse_stream(const uint8_t *value, uint32_t length, struct request *request) {
  (void)value;
  request->stream = true;
  return length ? "the field for an open box has a value" : NULL;
}

static const char *parse_zygote(const uint8_t *value, uint32_t length, struct request *request) {
  request->zygote = text_of(value, length);
  return request->zygote && wire_is_name(request->zygote) ? NULL : "the account is not a valid name";
}

static const char *parse_input_key(const uint8_t *value, uint32_t length, struct request *request) {
  request->input_key = text_of(value, length);
  return request->input_key && wire_is_name(request->input_key) ? NULL : "the key of the input is not a valid name";
}

static const char *parse_folder(const uint8_t *value, uint32_t length, struct request *request) {
  const char *path = text_of(value, length);
  if (request->folder_count == MAX_FOLDERS) return "too many folders";
  if (!path || !wire_is_inner_path(path)) return "a folder's path does not lie inside the work directory";
  request->folders[request->folder_count++] = path;
  return NULL;
}

static const char *parse_keep(const uint8_t *value, uint32_t length, struct request *request) {
  if (length != 24) return "the keep order is not five numbers";
  request->has_keep = true;
  request->keep_max_bytes = get_u64(value);
  request->keep_max_files = get_u32(value + 8);
  request->keep_cut_patterns = get_u32(value + 12);
  request->keep_cut_bytes = get_u32(value + 16);
  request->keep_refuses = get_u32(value + 20) != 0;
  if (request->keep_max_bytes > KEEP_BYTES_MAX || request->keep_max_files > KEEP_FILES_MAX)
    return "more may be kept than the launcher's ceiling";
  return NULL;
}

static const char *parse_keep_pattern(const uint8_t *value, uint32_t length, struct request *request) {
  const char *pattern = text_of(value, length);
  unsigned depth = 0;
  if (request->keep_pattern_count == MAX_KEEP_PATTERNS) return "too many patterns of files to keep";
  if (!pattern || !wire_is_inner_path(pattern)) return "a pattern of files to keep does not lie inside the work directory";
  for (const char *at = pattern; *at; at++) depth += *at == '/';
  if (depth >= MAX_KEEP_DEPTH) return "a pattern of files to keep has too many folders";
  request->keep_patterns[request->keep_pattern_count++] = pattern;
  return NULL;
}

static const char *parse_pair(const uint8_t *value, uint32_t length, struct request *request) {
  if (length != 8) return "the order of a pair is not two numbers";
  request->pair = true;
  request->transcript_bytes = get_u32(value);
  request->judges = get_u32(value + 4) != 0;
  return request->transcript_bytes > TRANSCRIPT_MAX ? "the transcript is above the launcher's ceiling" : NULL;
}

bool wire_split_pair(const uint8_t *payload, size_t length, uint32_t *second_id, const uint8_t *parts[2], size_t lengths[2]) {
  if (length < 8 || get_u32(payload + 4) > length - 8) return false;
  *second_id = get_u32(payload);
  lengths[0] = get_u32(payload + 4);
  lengths[1] = length - 8 - lengths[0];
  parts[0] = payload + 8;
  parts[1] = parts[0] + lengths[0];
  return true;
}

bool wire_is_inner_path(const char *path) {
  if (strlen(path) >= MAX_PATH) return false;
  for (const char *part = path;; part++) {
    size_t width = strcspn(part, "/");
    if (width == 0 || width > 255) return false;
    if (part[0] == '.' && (width == 1 || (width == 2 && part[1] == '.'))) return false;
    part += width;
    if (!*part) return true;
  }
}

bool wire_is_name(const char *name) {
  size_t width = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
  return width > 0 && width <= MAX_NAME && name[width] == 0 && name[0] != '.';
}

uint32_t get_u32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t get_u64(const uint8_t *at) { return get_u32(at) | (uint64_t)get_u32(at + 4) << 32; }

void put_u32(uint8_t *at, uint32_t number) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(number >> (8 * i));
}

void put_u64(uint8_t *at, uint64_t number) {
  put_u32(at, (uint32_t)number);
  put_u32(at + 4, (uint32_t)(number >> 32));
}

void put_head(uint8_t *at, uint32_t payload, enum frame_type type, uint32_t id) {
  put_u32(at, payload + FRAME_HEAD - 4);
  at[4] = (uint8_t)type;
  put_u32(at + 5, id);
}
