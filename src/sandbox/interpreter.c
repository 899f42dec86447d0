/*
 * A warm Python interpreter that forks its runs.
 *
 * Theory of operation
 * -------------------
 * This object is preloaded into the real interpreter, which starts exactly as a run would
 * (`python3 -I /box/main.py`). It replaces one libc call: the fopen64 with which the interpreter opens its script, after
 * it has initialised itself completely and before it has read a byte of the program. There it imports the common
 * modules, freezes the garbage collector's view of all existing objects, and calls zygote_serve(), which returns only in
 * a forked child whose box is ready. The child runs the script as the interpreter itself would have, from C, so no extra
 * frame is below the program's: tracebacks, sys.argv, __main__ and exit codes are those of a plain start.
 *
 * Exit
 * ----
 * A plain interpreter destroys everything at exit: every module, type and string. In a forked process each of these
 * writes copies a page, which takes five times as long as the program. A program can notice only its own finalizers. So
 * after threads are joined and atexit callbacks have run, this code looks at the objects made since the fork (the frozen
 * ones are not in the list). If no object has a finalizer or is a weak reference with a callback, and there is no other
 * thread, it flushes the streams and ends the process. Otherwise it takes the plain way. It also takes the plain way if a
 * shared object was loaded since the fork. Its code may have made objects that the collector does not list, or filled
 * buffers of libc.
 *
 * What must stay true
 * -------------------
 * - No byte of a program is read before the fork, and one zygote serves one account.
 * - In case of doubt the exit is the plain one. The fast one changes nothing that the program could observe, with one
 *   exception. If a program gives a finalizer to a class of a module in WARM, objects from before the fork may go without it.
 *   Python itself does not promise that finalizers run at exit.
 *
 * It uses only the interpreter's exported C API, found by name at run time: no header and no version is compiled in.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zygote_serve.h"

#define SCRIPT "/box/main.py"
#define MARKER "RUNLEDGER_ZYGOTE="

typedef void object;

/* The interpreter's functions and objects that this code uses. */
static struct {
    int (*PyGILState_Ensure)(void);
    int (*PyRun_SimpleString)(const char *);
    object *(*PyRun_FileExFlags)(FILE *, const char *, int, object *, object *, int, void *);
    object *(*PyImport_AddModule)(const char *);
    object *(*PyImport_ImportModule)(const char *);
    object *(*PyModule_GetDict)(object *);
    object *(*PyDict_GetItemString)(object *, const char *);
    int (*PyDict_SetItemString)(object *, const char *, object *);
    int (*PyDict_DelItemString)(object *, const char *);
    object *(*PySys_GetObject)(const char *);
    object *(*PyObject_CallMethod)(object *, const char *, const char *, ...);
    object *(*PyObject_CallObject)(object *, object *);
    object *(*PyObject_GetAttrString)(object *, const char *);
    object *(*PyUnicode_FromString)(const char *);
    object *(*PyList_GetItem)(object *, ssize_t);
    ssize_t (*PyList_Size)(object *);
    object *(*PyList_New)(ssize_t);
    object *(*PyObject_Type)(object *);
    void *(*PyType_GetSlot)(object *, int);
    int (*PyType_IsSubtype)(object *, object *);
    unsigned long (*PyType_GetFlags)(object *);
    object *(*PyErr_Occurred)(void);
    int (*PyErr_ExceptionMatches)(object *);
    void (*PyErr_Fetch)(object **, object **, object **);
    void (*PyErr_Restore)(object *, object *, object *);
    void (*PyErr_NormalizeException)(object **, object **, object **);
    void (*PyErr_Print)(void);
    void (*PyErr_Clear)(void);
    void (*PyErr_WriteUnraisable)(object *);
    long (*PyLong_AsLong)(object *);
    void (*Py_DecRef)(object *);
    void (*PyOS_BeforeFork)(void);
    void (*PyOS_AfterFork_Parent)(void);
    void (*PyOS_AfterFork_Child)(void);
    int (*Py_FinalizeEx)(void);
    object *(*PyInterpreterState_Main)(void);
    object *(*PyInterpreterState_ThreadHead)(object *);
    object *(*PyThreadState_Next)(object *);
    object **PyExc_SystemExit;
    object **PyExc_KeyboardInterrupt;
    object *_PyWeakref_RefType;
    object *_Py_NoneStruct;
    object *PyLong_Type;
    object *PyType_Type;
} py;

static int armed;               /* the next fopen64 of SCRIPT starts the zygote */

/* Python's own functions, found before the fork: a program may put others in their place. */
static struct { object *run_exit_functions, *unfreeze, *get_objects; } own;
static object *made_first;                   /* after the fork: the collector lists it, unless the program has frozen all objects */
static unsigned long long objects_loaded;   /* how many shared objects were loaded before the fork */

enum { PY_FILE_INPUT = 257, PY_TP_DEL = 53, PY_TP_FINALIZE = 80, PY_HAVE_GC = 1 << 14, SCAN_MOST = 200000 };

/* Modules that many programs import. A program cannot tell whether they were imported before it started. */
static const char WARM[] =
    "def _warm():\n"
    "    import math, collections, itertools, functools, re, heapq, bisect, random, string, json, typing, time\n"
    "    import operator, copy, datetime, array, dataclasses, decimal, fractions, os, io, gc, atexit\n"
    "    gc.collect()\n"
    "    gc.freeze()\n"
    "_warm()\n"
    "del _warm\n";

static void find(void *into, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        fprintf(stderr, "zygote: this interpreter does not export %s\n", name);
        _exit(125);
    }
    memcpy(into, &found, sizeof found);
}

#define FIND(name) find(&py.name, #name)

static void find_all(void)
{
    FIND(PyGILState_Ensure); FIND(PyRun_SimpleString); FIND(PyRun_FileExFlags); FIND(PyImport_AddModule);
    FIND(PyImport_ImportModule); FIND(PyModule_GetDict); FIND(PyDict_GetItemString); FIND(PyDict_SetItemString);
    FIND(PyDict_DelItemString); FIND(PySys_GetObject); FIND(PyObject_CallMethod); FIND(PyObject_GetAttrString);
    FIND(PyUnicode_FromString); FIND(PyList_GetItem); FIND(PyList_Size); FIND(PyList_New); FIND(PyObject_Type); FIND(PyType_GetSlot);
    FIND(PyType_IsSubtype); FIND(PyType_GetFlags); FIND(PyErr_ExceptionMatches); FIND(PyErr_Fetch); FIND(PyErr_Restore);
    FIND(PyErr_NormalizeException); FIND(PyErr_Print); FIND(PyErr_Clear); FIND(PyErr_WriteUnraisable);
    FIND(PyLong_AsLong); FIND(PyObject_CallObject); FIND(PyErr_Occurred); FIND(Py_DecRef);
    FIND(PyOS_BeforeFork); FIND(PyOS_AfterFork_Parent);
    FIND(PyOS_AfterFork_Child); FIND(Py_FinalizeEx); FIND(PyInterpreterState_Main);
    FIND(PyInterpreterState_ThreadHead); FIND(PyThreadState_Next); FIND(PyExc_SystemExit);
    FIND(PyExc_KeyboardInterrupt); FIND(_PyWeakref_RefType); FIND(_Py_NoneStruct); FIND(PyLong_Type); FIND(PyType_Type);
}

/* Removes the marker from the environment before the interpreter copies it, and erases its bytes, which /proc would show. */
__attribute__((constructor)) static void arm(void)
{
    extern char **environ;
    if (!getenv("RUNLEDGER_ZYGOTE")) return;
    armed = 1;
    char **kept = environ;
    for (char **each = environ; *each; each++) {
        if (!strncmp(*each, MARKER, strlen(MARKER)) || !strncmp(*each, "LD_PRELOAD=", 11))
            memset(*each, 0, strlen(*each));
        else
            *kept++ = *each;
    }
    *kept = NULL;
}

static FILE *real_fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "fopen64");
        memcpy(&real, &found, sizeof real);
    }
    return real(path, mode);
}

static object *function_of(const char *module, const char *name)
{
    object *found = py.PyObject_GetAttrString(py.PyImport_ImportModule(module), name);
    if (!found) _exit(125);
    return found;
}

static int take_loads(struct dl_phdr_info *info, size_t size, void *into)
{
    (void)size;
    *(unsigned long long *)into = info->dlpi_adds;
    return 1;
}

static unsigned long long count_loads(void)
{
    unsigned long long loads = 0;
    dl_iterate_phdr(take_loads, &loads);
    return loads;
}

static void run_script(void);

FILE *fopen64(const char *path, const char *mode)
{
    if (!armed || strcmp(path, SCRIPT) != 0) return real_fopen(path, mode);
    armed = 0;
    find_all();
    py.PyGILState_Ensure();   /* the interpreter opens files without its lock */
    zygote_initialised();
    if (py.PyRun_SimpleString(WARM) != 0) _exit(125);
    own.run_exit_functions = function_of("atexit", "_run_exitfuncs");
    own.unfreeze = function_of("gc", "unfreeze");
    own.get_objects = function_of("gc", "get_objects");
    objects_loaded = count_loads();
    const struct fork_hooks hooks = { py.PyOS_BeforeFork, py.PyOS_AfterFork_Parent, py.PyOS_AfterFork_Child };
    zygote_serve(&hooks);
    run_script();
    _exit(125);               /* not reached */
}

static void flush_both(void);
static void unfreeze(void);
static void exit_fast(int code);
static void exit_plainly(int code);
static int system_exit_code(int *code);

/* Runs the script as the interpreter would: sets the same names, and turns each way to end into the same exit code. */
static void run_script(void)
{
    made_first = py.PyList_New(0);
    object *names = py.PyModule_GetDict(py.PyImport_AddModule("__main__"));
    FILE *file = real_fopen(SCRIPT, "rb");
    if (!file) {
        fprintf(stderr, "zygote: %s: %s\n", SCRIPT, strerror(errno));
        _exit(125);
    }
    object *path = py.PyUnicode_FromString(SCRIPT);
    object *machinery = py.PyImport_ImportModule("_frozen_importlib_external");
    object *loader = py.PyObject_CallMethod(machinery, "SourceFileLoader", "ss", "__main__", SCRIPT);
    py.PyDict_SetItemString(names, "__file__", path);
    py.PyDict_SetItemString(names, "__cached__", py._Py_NoneStruct);
    py.PyDict_SetItemString(names, "__loader__", loader);
    py.Py_DecRef(path);
    py.Py_DecRef(loader);
    py.Py_DecRef(machinery);

    int code = 0;
    struct { int flags, feature_version; } flags = { 0, 0 };
    object *result = py.PyRun_FileExFlags(file, SCRIPT, PY_FILE_INPUT, names, names, 1, &flags);
    flush_both();
    if (result) {
        py.Py_DecRef(result);
    } else {
        /* As the interpreter does: only this type, and no class that is derived from it. */
        if (py.PyErr_Occurred() == *py.PyExc_KeyboardInterrupt) code = 128 + SIGINT;
        else if (py.PyErr_ExceptionMatches(*py.PyExc_SystemExit)) {
            if (system_exit_code(&code)) exit_fast(code);
            unfreeze();
            py.PyErr_Print();    /* a SystemExit with a message: prints it and exits */
        } else {
            code = 1;
        }
        py.PyErr_Print();
    }
    py.PyDict_DelItemString(names, "__file__");
    py.PyDict_DelItemString(names, "__cached__");
    py.PyErr_Clear();
    if (code > 128) exit_plainly(code);
    exit_fast(code);
}

/* The interpreter flushes between the end of a script and the printing of its exception. */
static void flush_both(void)
{
    object *type, *value, *trace;
    py.PyErr_Fetch(&type, &value, &trace);
    static const char *const streams[] = { "stderr", "stdout" };
    for (int n = 0; n < 2; n++) {
        object *stream = py.PySys_GetObject(streams[n]);
        if (stream && !py.PyObject_CallMethod(stream, "flush", NULL)) py.PyErr_Clear();
    }
    py.PyErr_Restore(type, value, trace);
}

/*
 * sys.exit(), sys.exit(None) and sys.exit(n) print nothing: their code is taken from the error indicator. The exception
 * must be released too, because its traceback refers to the program's frame, and so to all of its globals.
 */
static int system_exit_code(int *code)
{
    object *type, *value, *trace;
    py.PyErr_Fetch(&type, &value, &trace);
    py.PyErr_NormalizeException(&type, &value, &trace);
    object *code_object = py.PyObject_GetAttrString(value, "code");
    int none = code_object && code_object == py._Py_NoneStruct, number = code_object && py.PyObject_Type(code_object) == py.PyLong_Type;
    if (!none && !number) {
        py.PyErr_Restore(type, value, trace);
        return 0;
    }
    *code = none ? 0 : (int)py.PyLong_AsLong(code_object);
    py.Py_DecRef(code_object);
    py.Py_DecRef(type);
    py.Py_DecRef(value);
    py.Py_DecRef(trace);
    return 1;
}

static int nothing_to_finalize(void);
static int flush(const char *name);

static void exit_fast(int code)
{
    object *modules = py.PySys_GetObject("modules");
    if (!modules || count_loads() != objects_loaded) exit_plainly(code);
    object *threading = py.PyDict_GetItemString(modules, "threading");
    if (threading && !py.PyObject_CallMethod(threading, "_shutdown", NULL)) py.PyErr_WriteUnraisable(threading);
    if (!py.PyObject_CallObject(own.run_exit_functions, NULL)) exit_plainly(code);
    if (!nothing_to_finalize() || !flush("stdout") || !flush("stderr")) exit_plainly(code);
    _exit(code & 0xff);
}

static void exit_plainly(int code)
{
    py.PyErr_Clear();
    unfreeze();
    if (py.Py_FinalizeEx() < 0) code = 120;
    if (code == 128 + SIGINT) {
        signal(SIGINT, SIG_DFL);
        kill(getpid(), SIGINT);
    }
    exit(code);
}

/*
 * __main__ is frozen too. The collector can free a cycle through it only if it sees every object of the cycle. A program that
 * has frozen its objects itself has frozen this as well.
 */
static int has_frozen_all(void);

static void unfreeze(void)
{
    object *type, *value, *trace;
    py.PyErr_Fetch(&type, &value, &trace);
    if (!has_frozen_all()) py.PyObject_CallObject(own.unfreeze, NULL);
    py.PyErr_Restore(type, value, trace);
}

/* Flushes a stream, if the program has not replaced it. */
static int flush(const char *name)
{
    char original[16];
    snprintf(original, sizeof original, "__%s__", name);
    object *stream = py.PySys_GetObject(name);
    return stream && stream == py.PySys_GetObject(original) && py.PyObject_CallMethod(stream, "flush", NULL) != NULL;
}

static int is_finalized(object *type) { return py.PyType_GetSlot(type, PY_TP_FINALIZE) || py.PyType_GetSlot(type, PY_TP_DEL); }

/* Or it is a type whose objects have one, and are in no list of the collector. */
static int has_finalizer(object *it)
{
    object *type = py.PyObject_Type(it);
    int found = is_finalized(type);
    if (!found && py.PyType_IsSubtype(type, py.PyType_Type)) found = !(py.PyType_GetFlags(it) & PY_HAVE_GC) && is_finalized(it);
    if (!found && py.PyType_IsSubtype(type, py._PyWeakref_RefType)) {
        object *callback = py.PyObject_GetAttrString(it, "__callback__");
        found = callback != py._Py_NoneStruct;
    }
    py.Py_DecRef(type);
    return found;
}

static int is_listed(object *list, object *it)
{
    ssize_t count = list ? py.PyList_Size(list) : 0;
    for (ssize_t n = 0; n < count; n++)
        if (py.PyList_GetItem(list, n) == it) return 1;
    return 0;
}

static int has_frozen_all(void)
{
    object *made = py.PyObject_CallObject(own.get_objects, NULL);
    int listed = is_listed(made, made_first);
    if (made) py.Py_DecRef(made);
    else py.PyErr_Clear();
    return !listed;
}

/*
 * The list has no objects from before the fork, because they are frozen. A program cannot observe their finalizers. Nor has it
 * what the program has frozen: then there is no telling.
 */
static int nothing_to_finalize(void)
{
    object *head = py.PyInterpreterState_ThreadHead(py.PyInterpreterState_Main());
    if (py.PyThreadState_Next(head)) return 0;
    object *made = py.PyObject_CallObject(own.get_objects, NULL);
    ssize_t count = made ? py.PyList_Size(made) : -1;
    int none = count >= 0 && count <= SCAN_MOST && is_listed(made, made_first);
    for (ssize_t n = 0; none && n < count; n++)
        none = !has_finalizer(py.PyList_GetItem(made, n));
    if (made) py.Py_DecRef(made);    /* the list refers to all of them: while it exists, nothing is finalized */
    return none;
}
