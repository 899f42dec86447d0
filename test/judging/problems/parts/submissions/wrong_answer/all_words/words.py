import sys


def read():
    return sys.stdin.read().split()
