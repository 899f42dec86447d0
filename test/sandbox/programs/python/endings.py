def loop_spin():
    while True:
        pass

def loop_sleep():
    while True:
        time.sleep(3600)

def spin_some():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    say('OK spin')

def sleep_some():
    time.sleep(0.1)
    say('OK sleep')

def loop_catch():
    for each in range(1, 65):
        try:
            signal.signal(each, lambda *_: None)
        except (OSError, ValueError):
            pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def loop_ignore():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        time.sleep(3600)

def loop_in_c():
    # one long call that never checks Python's signal flags
    'a' * 40 in 'b'
    import re
    re.match(r'(a+)+$', 'a' * 64 + 'b')

def daemonize():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            loop_ignore()
        os._exit(0)
    os.wait()
    say('OK left a daemon')

def stdout_kept_open():
    import subprocess
    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True)
    say('OK a child keeps stdout open')
    os._exit(0)

def orphan_spins():
    if os.fork() == 0:
        loop_spin()
    say('OK left a spinning child')
    os._exit(0)

def stops_itself():
    os.kill(os.getpid(), signal.SIGSTOP)
    say('ESCAPED went on after SIGSTOP')

def thread_survives():
    import threading
    threading.Thread(target=loop_sleep).start()
    sys.exit(0)

def atexit_spins():
    import atexit
    atexit.register(loop_spin)
    say('OK main is over')

def spin_many():
    for _ in range(15):
        if os.fork() == 0:
            loop_spin()
    loop_spin()

def children_some():
    for _ in range(3):
        if os.fork() == 0:
            os._exit(0)
    works('3 children', lambda: [os.wait()[1] for _ in range(3)] == [0, 0, 0])

def kill_all():
    for each in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        for number in (-1, *range(1, 200)):
            try:
                if number != os.getpid():
                    os.kill(number, each)
            except OSError:
                pass
    say('OK still judged')

def kill_child():
    pid = os.fork()
    if pid == 0:
        loop_sleep()
    os.kill(pid, signal.SIGTERM)
    works('kill of a child', lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM)

def priority_raise():
    must_fail('nice -20', os.setpriority, os.PRIO_PROCESS, 0, -20)
    must_fail('SCHED_FIFO', os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))

def priority_lower():
    works('nice 5', os.nice, 5)

def exit_three():
    sys.exit(3)

def uncaught():
    raise RuntimeError('as users know it')

def segfault():
    import ctypes
    ctypes.string_at(8)

def measured():
    import resource
    begun = time.monotonic()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    say(f'cpu_us {round((used.ru_utime + used.ru_stime) * 1e6)} wall_us {round((time.monotonic() - begun) * 1e6)} rss_bytes {used.ru_maxrss * 1024}')
