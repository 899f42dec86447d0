#define _GNU_SOURCE
#include "output_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "failure.h"
#include "wire.h"

static uint8_t *pages;

void output_pages_open(struct slot_setup *setup) {
  const size_t size = OUTPUT_REGIONS * (size_t)OUTPUT_MAX;
  pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, setup->output, 0);
  if (pages == MAP_FAILED) fail("map the output pages");
  madvise(pages, size, MADV_DONTFORK);
  close(setup->output);
}

uint8_t *output_region(int region) { return pages + (size_t)region * OUTPUT_MAX; }
