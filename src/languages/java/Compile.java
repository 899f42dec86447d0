import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.IdentifierTree;
import com.sun.source.tree.MemberSelectTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.TaskEvent;
import com.sun.source.util.TaskListener;
import com.sun.tools.javac.api.JavacTaskImpl;
import com.sun.tools.javac.main.Main.Result;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import javax.lang.model.SourceVersion;
import javax.lang.model.element.TypeElement;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/**
 * Runs the JDK's own compiler for the sources of one program. A public class may have any name, as
 * with `java File.java`: the file object accepts every name. Diagnostics are those of javac for files
 * of these names, because javac prints them.
 *
 * <p>Once: {@code java -jar front.jar SOURCE FOLDER [SOURCE...]} makes the folder with the program's files, writes
 * the main class's name to standard output, and exits as javac does. The main class is looked for
 * in the first source first. Where javac fails for want of memory
 * or stack, it prints nothing and exits with a code of its own.
 *
 * <p>The files are the class files, if they are few, of no package, and have plain names. Else they are one archive of all:
 * it may have any name, and many classes. A JVM starts faster from class files: to open an archive it loads a hundred
 * classes of its own.
 *
 * <p>Resident: {@code java -jar front.jar --serve WARM_UP_ROUNDS} writes one byte when it is warm, then
 * answers requests on standard input, one by one, until the input ends. All numbers are u32, big endian. A
 * request is {@code length, source}; the source is called Main.java. An answer is {@code length of all that
 * follows, status (0 compiled, 1 rejected), length, diagnostics, length, main class}, and for each file of the
 * program {@code length, name, length, bytes}. A failure of
 * javac (out of memory, stack overflow, a bug) ends the process without an answer: it is not used again.
 *
 * <p>Whether javac failed is decided by its result code, which only javac sets, and never by its
 * diagnostics: they quote the source, so a source can make them say anything. The public API has no
 * result code, so this class calls the one method behind it that does; the manifest of the archive
 * exports its package.
 *
 * <p>No code of the source ever runs here: annotation processing is off, and nothing is loaded.
 */
public final class Compile {
  /** A byte more than resident_compiler.ts lets users have: so it sees that there were more. */
  private static final int DIAGNOSTICS_KEPT = 64 * 1024 + 1;
  private static final LocalDateTime EPOCH = LocalDateTime.of(1980, 1, 1, 0, 0);
  private static final int CLASS_FILES_MIB = 64;
  private static final int CLASS_FILES_LIMIT = CLASS_FILES_MIB << 20;
  /** Of a ZIP archive. */
  private static final int PATH_LIMIT = 0xFFFF;
  // resident_compiler.ts has these, too.
  private static final String ARCHIVE = "program.jar";
  private static final int LOOSE_CLASSES_MOST = 8;
  // There are file systems whose names have 143 bytes at most.
  private static final Pattern LOOSE_NAME = Pattern.compile("[A-Za-z0-9_$]{1,120}\\.class");
  /** As javac exits after a failure of its own. */
  private static final int ABNORMAL = 4;
  // java.ts names the limits that these stand for. The JVM itself exits with 3 when it has no heap left.
  private static final int OUT_OF_MEMORY = 3;
  private static final int OUT_OF_STACK = 5;
  private static final int WARM = 'W';
  private static final List<String> OPTIONS = List.of("-proc:none", "-implicit:none");

  public static void main(String[] args) throws IOException {
    if (args[0].equals("--serve")) {
      serve(Integer.parseInt(args[1]));
    } else {
      List<String> sources = new ArrayList<>(List.of(args));
      Path folder = Path.of(sources.remove(1));
      System.exit(once(sources, folder));
    }
  }

  private static int once(List<String> paths, Path folder) throws IOException {
    List<Source> sources = new ArrayList<>();
    for (String path : paths) {
      byte[] bytes = Files.readAllBytes(Path.of(path));
      sources.add(new Source(path, new String(bytes, StandardCharsets.UTF_8)));
    }
    Compilation result = new Compilation(sources).run(newFileManager());
    int limit = result.failed() ? result.limitMet() : 0;
    if (limit != 0) return limit;
    System.err.print(result.diagnostics());
    System.err.flush();
    if (result.failed()) return ABNORMAL;
    if (!result.compiled) return 1;
    // A file of the source may have its name.
    Files.deleteIfExists(folder);
    Files.createDirectory(folder);
    for (Map.Entry<String, byte[]> file : result.files().entrySet()) {
      Files.write(folder.resolve(file.getKey()), file.getValue());
    }
    System.out.print(result.mainClass());
    System.out.flush();
    return 0;
  }

  private static void serve(int warmUpRounds) throws IOException {
    DataInputStream in =
        new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
    DataOutputStream out =
        new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
    // Whatever else prints, prints beside the protocol.
    System.setOut(System.err);
    StandardJavaFileManager files = newFileManager();
    for (int round = 0; round < warmUpRounds; round++) {
      for (String source : WarmUp.SOURCES) new Compilation(source).run(files);
    }
    out.writeByte(WARM);
    out.flush();
    while (true) {
      int length;
      try {
        length = in.readInt();
      } catch (EOFException e) {
        return;
      }
      answer(new String(in.readNBytes(length), StandardCharsets.UTF_8), files, out);
      out.flush();
    }
  }

  private static void answer(String source, JavaFileManager platform, DataOutputStream out)
      throws IOException {
    byte[] said;
    byte[] mainClass;
    Map<String, byte[]> files;
    boolean compiled;
    try {
      Compilation result = new Compilation(source).run(platform);
      if (result.failed()) throw new IllegalStateException();
      compiled = result.compiled;
      said = result.diagnostics().getBytes(StandardCharsets.UTF_8);
      mainClass = (compiled ? result.mainClass() : "").getBytes(StandardCharsets.UTF_8);
      files = compiled ? result.files() : Map.of();
    } catch (Throwable e) {
      // The state of javac can no longer be trusted. halt() runs no hook that could wait for it.
      Runtime.getRuntime().halt(ABNORMAL);
      return;
    }
    int kept = Math.min(said.length, DIAGNOSTICS_KEPT);
    int length = 3 * 4 + kept + mainClass.length;
    for (Map.Entry<String, byte[]> file : files.entrySet()) {
      length += 2 * 4 + file.getKey().length() + file.getValue().length;
    }
    out.writeInt(length);
    out.writeInt(compiled ? 0 : 1);
    out.writeInt(kept);
    out.write(said, 0, kept);
    out.writeInt(mainClass.length);
    out.write(mainClass);
    for (Map.Entry<String, byte[]> file : files.entrySet()) {
      out.writeInt(file.getKey().length());
      out.writeBytes(file.getKey()); // ASCII
      out.writeInt(file.getValue().length);
      out.write(file.getValue());
    }
  }

  private static StandardJavaFileManager newFileManager() throws IOException {
    StandardJavaFileManager files =
        ToolProvider.getSystemJavaCompiler()
            .getStandardFileManager(null, null, StandardCharsets.UTF_8);
    // Nothing but the platform: not the folder that this class was loaded from.
    files.setLocationFromPaths(StandardLocation.CLASS_PATH, List.of());
    return files;
  }

  /** Sources on their way to class files. */
  private static final class Compilation implements TaskListener {
    private final List<Source> sources;
    private final StringWriter words = new StringWriter();
    private final Map<String, ByteArrayOutputStream> outputs = new LinkedHashMap<>();
    private final List<String> declared = new ArrayList<>();
    private final Set<String> runnable = new HashSet<>();
    private Result end;
    boolean compiled;

    Compilation(String source) {
      this(List.of(new Source("Main.java", source)));
    }

    Compilation(List<Source> sources) {
      this.sources = sources;
    }

    Compilation run(JavaFileManager platform) {
      JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
      PrintWriter writer = new PrintWriter(words);
      JavacTaskImpl task =
          (JavacTaskImpl)
              compiler.getTask(
                  writer, new InMemory(platform), null, OPTIONS, null, sources);
      task.addTaskListener(this);
      end = task.doCall();
      compiled = end == Result.OK;
      writer.flush();
      if (compiled && declared.isEmpty()) reject("no class declared in source file");
      for (String path : outputs.keySet()) {
        boolean fits = path.getBytes(StandardCharsets.UTF_8).length <= PATH_LIMIT;
        if (compiled && !fits) reject("the path of a class file is longer than " + PATH_LIMIT + " bytes");
      }
      return this;
    }

    private void reject(String why) {
      words.write("error: " + why + "\n");
      compiled = false;
    }

    @Override
    public void finished(TaskEvent event) {
      if (event.getKind() == TaskEvent.Kind.PARSE) noteOrder(event.getCompilationUnit());
      if (event.getKind() == TaskEvent.Kind.ANALYZE && event.getTypeElement() != null) {
        TypeElement type = event.getTypeElement();
        if (MainMethod.isIn(type)) runnable.add(type.getQualifiedName().toString());
      }
    }

    private void noteOrder(CompilationUnitTree unit) {
      String prefix = unit.getPackageName() == null ? "" : nameOf(unit.getPackageName()) + ".";
      for (Tree tree : unit.getTypeDecls()) {
        if (tree instanceof ClassTree) declared.add(prefix + ((ClassTree) tree).getSimpleName());
      }
    }

    /** Letter for letter: toString() of a tree escapes what is not Latin-1. The parts may be many, so no recursion. */
    private static String nameOf(Tree tree) {
      Deque<CharSequence> parts = new ArrayDeque<>();
      Tree at = tree;
      for (; at instanceof MemberSelectTree; at = ((MemberSelectTree) at).getExpression()) {
        parts.addFirst(((MemberSelectTree) at).getIdentifier());
      }
      parts.addFirst(at instanceof IdentifierTree ? ((IdentifierTree) at).getName() : at.toString());
      return String.join(".", parts);
    }

    /** The first class with a main, in the order of the sources. Without one it is the first class, and the JVM reports it. */
    String mainClass() {
      for (String name : declared) if (runnable.contains(name)) return name;
      return declared.get(0);
    }

    String diagnostics() {
      return words.toString();
    }

    /** Out of memory or stack, or a bug of javac. A source that is merely wrong ends with ERROR. */
    boolean failed() {
      return end != Result.OK && end != Result.ERROR;
    }

    /** The exit code for the limit that made javac fail; 0: none that is known. */
    int limitMet() {
      // Only after a failure do these words come from a stack trace of javac.
      if (words.getBuffer().indexOf("java.lang.StackOverflowError") >= 0) return OUT_OF_STACK;
      return words.getBuffer().indexOf("java.lang.OutOfMemoryError") >= 0 ? OUT_OF_MEMORY : 0;
    }

    Map<String, byte[]> files() throws IOException {
      boolean loose = outputs.size() <= LOOSE_CLASSES_MOST;
      // There are file systems for which a and A are one name.
      Set<String> folded = new HashSet<>();
      for (String name : outputs.keySet()) {
        loose = loose && LOOSE_NAME.matcher(name).matches() && folded.add(name.toLowerCase(Locale.ROOT));
      }
      if (!loose) return Map.of(ARCHIVE, archive());
      Map<String, byte[]> files = new LinkedHashMap<>();
      outputs.forEach((name, bytes) -> files.put(name, bytes.toByteArray()));
      return files;
    }

    /** Stored, not deflated: it is read once or twice, from memory. The same classes, the same bytes. */
    private byte[] archive() throws IOException {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (ZipOutputStream zip = new ZipOutputStream(bytes)) {
        for (Map.Entry<String, ByteArrayOutputStream> output : outputs.entrySet()) {
          byte[] content = output.getValue().toByteArray();
          CRC32 crc = new CRC32();
          crc.update(content);
          ZipEntry entry = new ZipEntry(output.getKey());
          entry.setMethod(ZipEntry.STORED);
          entry.setSize(content.length);
          entry.setCrc(crc.getValue());
          entry.setTimeLocal(EPOCH);
          zip.putNextEntry(entry);
          zip.write(content);
        }
      }
      return bytes.toByteArray();
    }

    /** Keeps every class file in memory, and finds classes in the platform alone. */
    private final class InMemory extends ForwardingJavaFileManager<JavaFileManager> {
      private int written;

      InMemory(JavaFileManager platform) {
        super(platform);
      }

      @Override
      public JavaFileObject getJavaFileForOutput(
          Location location, String className, JavaFileObject.Kind kind, FileObject sibling) {
        String name = className.replace('.', '/') + kind.extension;
        return new SimpleJavaFileObject(URI.create("mem:///" + outputs.size() + kind.extension), kind) {
          @Override
          public OutputStream openOutputStream() {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            outputs.put(name, bytes);
            return new Bounded(bytes);
          }
        };
      }

      // The resident compiler keeps its file manager; a task would close it.
      @Override
      public void close() {}

      /** javac reports the exception as an error of the class that it could not write. */
      private final class Bounded extends FilterOutputStream {
        Bounded(OutputStream bytes) {
          super(bytes);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
          written += length;
          if (written > CLASS_FILES_LIMIT) {
            throw new IOException("the class files exceed the limit of " + CLASS_FILES_MIB + " MiB");
          }
          out.write(bytes, offset, length);
        }
      }
    }
  }

  private static final class Source extends SimpleJavaFileObject {
    private final String path;
    private final String text;

    Source(String path, String text) {
      super(uriOf(path), Kind.SOURCE);
      this.path = path;
      this.text = text;
    }

    /** javac writes its last part into each class, and stack traces name it. */
    private static URI uriOf(String path) {
      try {
        return new URI("mem", null, "/" + path, null);
      } catch (URISyntaxException e) {
        throw new IllegalArgumentException(e);
      }
    }

    @Override
    public String getName() {
      return path;
    }

    @Override
    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
      return text;
    }

    /** True for every name of a public class; package-info and module-info are not classes, and need a file of their name. */
    @Override
    public boolean isNameCompatible(String simpleName, Kind kind) {
      if (kind != Kind.SOURCE) return false;
      boolean named = ("/" + path).endsWith("/" + simpleName + ".java");
      return named || SourceVersion.isIdentifier(simpleName);
    }
  }
}
