/* The number of elements of an array. */
#ifndef RUNLEDGER_ARRAY_H
#define RUNLEDGER_ARRAY_H

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
