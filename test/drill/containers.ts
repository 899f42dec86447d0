/** Containers of the image, with the rights that the compose file gives to each service. */
import { COMPOSE, yaml } from '../deploy/manifests.ts';

/** Of these the network is another one here, and the rest is podman-compose's own work. */
const ELSEWHERE = ['image', 'ports', 'networks', 'depends_on', 'restart', 'stop_grace_period'];

/** Each key of a service, as options of `podman run`. */
const OPTIONS: Readonly<Record<string, (value: never) => string[]>> = {
  user: (value: string) => [`--user=${value}`],
  read_only: () => ['--read-only', '--read-only-tmpfs=false'],
  tmpfs: (value: string[]) => value.map((each) => `--tmpfs=${each}`),
  volumes: (value: string[]) => value.map((each) => `--volume=runledger-${each}`),
  cap_drop: (value: string[]) => value.map((each) => `--cap-drop=${each}`),
  cap_add: (value: string[]) => value.map((each) => `--cap-add=${each}`),
  security_opt: (value: string[]) => value.map((each) => `--security-opt=${each}`),
  cgroup: (value: string) => [`--cgroupns=${value}`],
};

/** The options that the compose file stands for, and the command, without the environment. */
export function serviceOf(name: string): { options: string[]; command: string[] } {
  const { command, environment: _, ...keys } = yaml(COMPOSE).services[name];
  const options = Object.entries(keys)
    .filter(([key]) => !ELSEWHERE.includes(key))
    .flatMap(([key, value]) => {
      const option = OPTIONS[key];
      if (!option) throw new Error(`${COMPOSE}: no option of podman is known for ${key}`);
      return option(value as never);
    });
  return { options, command };
}

export const WEB_PORT = 18_080;

/** The environment of a service, with the addresses of a database. */
export function environmentOf(
  name: string,
  urls: Readonly<Record<'owner' | 'web' | 'worker', string>>,
  more: Readonly<Record<string, string>> = {},
): string[] {
  const given: Record<string, string> = yaml(COMPOSE).services[name].environment;
  const role = name === 'migrate' || name === 'command' ? 'owner' : (name as 'web' | 'worker');
  const filled = Object.entries({ ...given, ...more }).map(([key, value]) => {
    if (key.endsWith('DATABASE_URL')) return [key, urls[role]];
    if (key === 'PORT') return [key, WEB_PORT];
    const chosen = value.replace(/\$\{\w+\}/, '');
    return [key, chosen.replace(/\$\{\w+:\?[^}]+\}/, '5a'.repeat(32))];
  });
  return filled.map((pair) => `--env=${pair.join('=')}`);
}
